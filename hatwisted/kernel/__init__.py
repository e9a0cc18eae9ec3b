"""The inner loops of sending and dispatch, compiled where that is possible, under one interface.

Each has two twins: one in Cython (`_requests`, `_signedsends`, `_signatures`, `_admission`, `_records`,
`_answers`, `_puts`, `_dispatch`, `_index`, `_walk`, `_reading`, `_columns`, `_frames`), built when the
package is installed and a C compiler is there, and one in Python (`pure`), which is the oracle of the tests
and runs elsewhere. `HATWISTED_PURE=1` in the environment takes Python's, `python -m hatwisted.kernel` says
which is in use. Results are the same to the byte; what a compiled twin isn't sure of (an unusual header, a
put that may break a limit), it leaves to the caller's ordinary way, so no rule is written twice. `choice`
decides, for all parts at once; `appendrun` holds what has been encoded, `nextoffsets` the queue offsets that
come next, `heldputs` what waits for disk or slave, `queueends` has the ends of queues in Python, `limits`
says how much one call builds.

* `RunEncoder`: the puts of a read as records.
* `decode_batch`: the body of a batch as entries, which stay packed in the compiled twin.
* `take_sends`: the frames of a read that are sends as commands; None where the receiver does it all.
* `take_signed_sends`: the same where sends are signed, with the bytes that the signatures cover.
* `check_signatures`: the signatures of a read's sends, eight at once, by keys that `signing_key` has made ready;
  None where they are checked one by one, as on a processor without AVX2.
* `UsualPuts`: the puts of plain single sends; None where `broker.send.admission` does it all.
* `SendAnswers`: the answers to stored sends, in one buffer.
* `SettledPuts`: counts stored puts, and holds those that wait without what only their append needed.
* `QueueTail`: the end of a queue, whose newest entries gather in memory.
* `QueueMap`: these by topic and queue id.
* `usual_records`: what plain records mean to queues and index, with their entries in the queues' tails; None where
  the dispatcher does it all by columns.
* `whole_records`: plain records followed and checked; None where the walk does it all by columns.
* `choose_entries`, `own_bytes`: what a read of a queue gets, see `logcodec.entrychoice`.
* `plain_columns`: plain records as columns; None where `logcodec.scan` makes them.
* `plain_pairs`: their properties; None where `logcodec.propertyareas` takes them apart.
* `copy_spans`, `span_crcs`, `split_spans`: substrings copied together, their checksums, their parts; None where
  numpy, pyarrow and loops do it.
* `take_frames`: the whole frames of a read of the HA link; None where the receiver takes them apart.
* `fitting_frames`: those of them that continue the log; None where the slave's check looks at each.
* `ItemLinker`: items of the index and their chains; None where `store.index.indexfile` links them by columns.
"""

from hatwisted.kernel.appendrun import UNLIMITED, AppendRun
from hatwisted.kernel.choice import (
    COMPILED,
    ItemLinker,
    QueueMap,
    QueueTail,
    RunEncoder,
    SendAnswers,
    SettledPuts,
    UsualPuts,
    check_signatures,
    choose_entries,
    copy_spans,
    decode_batch,
    fitting_frames,
    own_bytes,
    plain_columns,
    plain_pairs,
    signing_key,
    span_crcs,
    split_spans,
    take_frames,
    take_sends,
    take_signed_sends,
    usual_records,
    whole_records,
)
from hatwisted.kernel.nextoffsets import NextOffsets
from hatwisted.kernel.pure import count_put, message_ids

__all__ = [
    "COMPILED",
    "UNLIMITED",
    "AppendRun",
    "ItemLinker",
    "NextOffsets",
    "QueueMap",
    "QueueTail",
    "RunEncoder",
    "SendAnswers",
    "SettledPuts",
    "UsualPuts",
    "check_signatures",
    "choose_entries",
    "copy_spans",
    "count_put",
    "decode_batch",
    "fitting_frames",
    "message_ids",
    "own_bytes",
    "plain_columns",
    "plain_pairs",
    "signing_key",
    "span_crcs",
    "split_spans",
    "take_frames",
    "take_sends",
    "take_signed_sends",
    "usual_records",
    "whole_records",
]
