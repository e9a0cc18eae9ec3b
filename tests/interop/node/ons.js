'use strict';
// Producer and push consumer of npm's ali-ons, driven by lines on standard input; see clientprogram.py.
// Arguments: the name server. Its libraries are found by NODE_PATH.

const readline = require('readline');
const { Consumer, Producer, Message } = require('ali-ons');

const silent = { info() {}, warn() {}, debug() {}, error: (...words) => console.error(...words) };
const common = {
  httpclient: {}, // only used to find name servers by HTTP
  nameSrv: process.argv[2],
  logger: silent,
  rebalanceInterval: 1000,
  persistConsumerOffsetInterval: 1000,
};

const say = (...words) => process.stdout.write(`> ${words.join('\t')}\n`);

const commands = {
  async send(topic, prefix, count) {
    const producer = new Producer({ ...common, producerGroup: 'ons-producer' });
    producer.on('error', error => say('error', error.message));
    await producer.ready();
    for (let number = 0; number < Number(count); number++) {
      const message = new Message(topic, number % 2 ? 'odd' : 'even', `${prefix}${number}`);
      message.keys = [`${prefix}-key${number}`];
      const result = await producer.send(message);
      say('sent', `${prefix}${number}`, result.sendStatus, result.messageQueue.queueId);
    }
    await producer.close();
  },

  async subscribe(group, topic, tags) {
    const consumer = new Consumer({
      ...common,
      consumerGroup: group,
      consumeFromWhere: 'CONSUME_FROM_FIRST_OFFSET',
    });
    consumer.on('error', error => say('error', error.message));
    consumer.subscribe(topic, tags, async message => {
      say('got', message.body.toString(), message.queueId, message.queueOffset, message.tags);
    });
    await consumer.ready();
  },
};

async function main() {
  say('ready');
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const [ name, ...words ] = line.split('\t');
    try {
      await commands[name](...words);
      say('done', name);
    } catch (error) {
      say('failed', name, String(error).replace(/\s+/g, ' '));
    }
  }
  process.exit(0);
}

main();
