"""Frames of the remoting protocol: a length, a header in JSON or binary, a body.

The receiver is the broker's hottest code: one socket read brings dozens of pipelined requests, and each costs
one prefix, one header and one body slice here. JSON headers are decoded by msgspec straight into the command
object. Its strict decoder refuses the numbers and booleans that some clients put into extFields; only then is the
lenient one tried, which turns every value into text: the rest of the program sees text only.

Rejected: `json.loads` and a dict per header (5 times slower), one decoder for all (it would have to examine
every value of every request), collecting input in one bytearray (each read would be copied twice more).

A frame has to be complete before it is decoded. Pieces of an unfinished one are kept as they arrive and joined
once, when the last arrives; small ones are merged so that a dribbling peer can't multiply our memory.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Final

import msgspec

from hatwisted.wire.codes import FLAG_ONEWAY, FLAG_RESPONSE, V4_9_7, LanguageCode, RequestCode
from hatwisted.wire.mendedjson import mended_json
from hatwisted.wire.ownfields import OwnBytes, OwnFlag, OwnTexts
from hatwisted.wire.requestheader import Int32, SendHeader, int_field
from hatwisted.wire.signedsend import SignedSendHeader

MAX_FRAME: Final = 16 * 1024 * 1024
"""Bytes of a frame including its length field: RocketMQ's own limit on both sides."""
MAX_HEADER: Final = 256 * 1024
"""Bytes of a header: properties may have 32767, which JSON escapes to at most six times that."""
MAX_ANSWER_HEADER: Final = 4 << 20
"""The same of a server's answer: that to a batch has an id of up to 57 characters for each message."""
_MERGE_BELOW: Final = 4096
"""Bytes; a held piece smaller than this is merged with the next, so that a piece's overhead stays small."""

_PREFIX: Final = struct.Struct(">II")
_PREFIX_SIZE: Final = _PREFIX.size
_LENGTH_SIZE: Final = 4
_TYPE_JSON: Final = 0
_TYPE_BINARY: Final = 1
_BINARY_HEAD: Final = struct.Struct(">hbhiii")
_LANGUAGE_NAMES: Final = {int(code): code.name for code in LanguageCode}
_LANGUAGE_NUMBERS: Final = {code.name: int(code) for code in LanguageCode}


class RemotingProtocolError(ValueError):
    """The peer's bytes aren't a remoting frame; the connection can't be used any more.

    position: of the frame's first byte within what was being read.
    """

    def __init__(self, reason: str, position: int = 0) -> None:
        super().__init__(f"{reason} (frame at byte {position} of this read)")
        self.reason = reason
        self.position = position


class RemotingCommand(msgspec.Struct, gc=False):
    """A request or a response. `ext` holds text only; `binary` is the header type it arrived or is sent in. It and
    `body` are never part of a JSON header, whatever a peer calls its fields: see `ownfields`."""

    code: Int32
    opaque: Int32 = 0
    flag: Int32 = 0
    language: str = "JAVA"
    version: Int32 = V4_9_7
    remark: str | None = None
    ext: dict[str, str] = msgspec.field(name="extFields", default_factory=dict)
    body: OwnBytes = msgspec.field(name="(body)", default=b"")
    binary: OwnFlag = msgspec.field(name="(binary)", default=False)

    @property
    def is_response(self) -> bool:
        """Is it the answer to the request with the same opaque, sent in the other direction?"""
        return self.flag & FLAG_RESPONSE != 0

    @property
    def is_oneway(self) -> bool:
        """Must it not be answered?"""
        return self.flag & FLAG_ONEWAY != 0


class SendCommand(RemotingCommand, gc=False):
    """A version 2 send whose fields were decoded together with its header: `header` instead of `ext`."""

    ext: OwnTexts = msgspec.field(name="(ext)", default_factory=dict)
    header: SendHeader | None = msgspec.field(name="extFields", default=None)


class SignedSendCommand(SendCommand, gc=False):
    """The same where sends are signed. Until the signature is checked, `encoded` is the header as it came, and
    `signed`, if it's known, what the signature covers."""

    header: SignedSendHeader | None = msgspec.field(name="extFields", default=None)
    encoded: OwnBytes = msgspec.field(name="(encoded)", default=b"")
    signed: OwnBytes = msgspec.field(name="(signed)", default=b"")

    def with_texts(self) -> RemotingCommand:
        """The request with all of its fields, as they were written."""
        command = _decode_json(self.encoded)
        command.body = self.body
        return command


class _LiberalHeader(msgspec.Struct):
    """A header that the strict decoder refused, with values of any type."""

    code: msgspec.Raw
    opaque: msgspec.Raw = msgspec.Raw(b"0")
    flag: msgspec.Raw = msgspec.Raw(b"0")
    language: msgspec.Raw = msgspec.Raw(b'"JAVA"')
    version: msgspec.Raw = msgspec.Raw(b"0")
    remark: msgspec.Raw = msgspec.Raw(b"null")
    ext: dict[str, msgspec.Raw] | None = msgspec.field(name="extFields", default=None)


_decode_strict = msgspec.json.Decoder(RemotingCommand).decode
_decode_liberal = msgspec.json.Decoder(_LiberalHeader).decode
_decode_text = msgspec.json.Decoder(str).decode
_encode_json = msgspec.json.Encoder().encode


def _as_text(raw: msgspec.Raw) -> str:
    """A JSON value as text for extFields: strings unquoted, anything else as written."""
    value = bytes(raw)
    return _decode_text(value) if value.startswith(b'"') else value.decode()


def _as_number(name: str, raw: msgspec.Raw) -> int:
    text = _as_text(raw)
    return 0 if text == "null" else int_field({name: text}, name)


def _decode_json_liberally(header: bytes) -> RemotingCommand:
    loose = _decode_liberal(header)
    language = _as_text(loose.language)
    remark = _as_text(loose.remark)
    ext = loose.ext or {}
    return RemotingCommand(
        code=_as_number("code", loose.code),
        opaque=_as_number("opaque", loose.opaque),
        flag=_as_number("flag", loose.flag),
        language=_LANGUAGE_NAMES.get(int(language), "OTHER") if language.isdecimal() else language,
        version=_as_number("version", loose.version),
        remark=None if remark == "null" else remark,
        ext={name: _as_text(value) for name, value in ext.items() if bytes(value) != b"null"},
    )


_SEND_CODES: Final = (int(RequestCode.SEND_MESSAGE_V2), int(RequestCode.SEND_BATCH_MESSAGE))
_SENDS: Final = tuple(b'{"code":%d,' % code for code in _SEND_CODES)
"""How the headers of SEND_MESSAGE_V2 and SEND_BATCH_MESSAGE begin where fastjson wrote them."""


def _send_decoder(kind: type[SendCommand]) -> Callable[[bytes], RemotingCommand]:
    """Decodes a send in one go, fields included; what can't be decoded so goes through the ordinary decoder."""
    decode = msgspec.json.Decoder(kind, strict=False).decode

    def decode_send(header: bytes) -> RemotingCommand:
        if header.startswith(_SENDS):
            try:
                command = decode(header)
            except msgspec.ValidationError:
                return _decode_json(header)
            # The code may come once more after the fields, and the last one counts.
            if command.header is not None and command.code in _SEND_CODES:
                if isinstance(command, SignedSendCommand):
                    command.encoded = header
                return command
        return _decode_json(header)

    return decode_send


def _decode_json(header: bytes) -> RemotingCommand:
    try:
        return _decode_strict(header)
    except msgspec.ValidationError:
        return _decode_json_liberally(header)


def _decode_binary(header: bytes) -> RemotingCommand:
    code, language, version, opaque, flag, remark_size = _BINARY_HEAD.unpack_from(header)
    position = _BINARY_HEAD.size
    remark, position = _text_at(header, position, remark_size)
    ext_size = int.from_bytes(header[position : position + 4], "big", signed=True)
    position += 4
    if ext_size < 0 or position + ext_size != len(header):
        raise ValueError(f"extFields of {ext_size} bytes in a header of {len(header)}")
    ext = {}
    while position < len(header):
        size = int.from_bytes(header[position : position + 2], "big", signed=True)
        name, position = _text_at(header, position + 2, size)
        size = int.from_bytes(header[position : position + 4], "big", signed=True)
        ext[name], position = _text_at(header, position + 4, size)
    name_of_language = _LANGUAGE_NAMES.get(language, "OTHER")
    return RemotingCommand(code, opaque, flag, name_of_language, version, remark or None, ext, b"", True)


def _text_at(header: bytes, start: int, size: int) -> tuple[str, int]:
    end = start + size
    if size < 0 or end > len(header):
        raise ValueError(f"text of {size} bytes at {start} in a header of {len(header)}")
    return header[start:end].decode("utf-8", "replace"), end


def _decode_other(kind: int, header: bytes) -> RemotingCommand:
    """A header that isn't of type JSON."""
    if kind == _TYPE_BINARY:
        return _decode_binary(header)
    raise ValueError(f"unknown header type {kind}")


_decode_send = _send_decoder(SendCommand)
_decode_signed_send = _send_decoder(SignedSendCommand)

TakeSends = Callable[[bytes, int, list[RemotingCommand], int, int], int]
"""The commands of the sends that lie at a position of a read, one after the other, are added to the list; returns
the position of the first frame that isn't such a send. The last two: largest frame and header, bytes."""


class RemotingReceiver:
    """Turns socket reads into commands. After a RemotingProtocolError it must not be used again.

    - max_frame, max_header: bytes; a longer one is refused before it's held
    - typed_sends: give a valid version 2 send as SendCommand; saves a broker a dict and its parsing per message
    - signed_sends: and as SignedSendCommand, with all that a signature covers
    - take_sends: a quicker way for the frames of such (or signed) sends that lie at a position; takes what it can
    """

    __slots__ = ("_decode_json", "_max_frame", "_max_header", "_needed", "_pieces", "_take_sends", "buffered")

    def __init__(
        self,
        max_frame: int = MAX_FRAME,
        max_header: int = MAX_HEADER,
        *,
        typed_sends: bool = False,
        signed_sends: bool = False,
        take_sends: TakeSends | None = None,
    ) -> None:
        plainly = _decode_send if typed_sends else _decode_json
        self._decode_json = _decode_signed_send if signed_sends else plainly
        self._take_sends = take_sends if typed_sends or signed_sends else None
        self._max_frame = max_frame
        self._max_header = max_header
        self._pieces: list[bytes] = []
        self._needed = 0  # bytes that must be there before another try makes sense
        self.buffered = 0
        """Bytes held of an unfinished frame."""

    def receive(self, data: bytes) -> list[RemotingCommand]:
        """Every command that `data` completes, in order; RemotingProtocolError when one can't be read."""
        if self._pieces:
            self._hold(data)
            if self.buffered < self._needed:
                return []
            data = b"".join(self._pieces)
            self._pieces = []
            self.buffered = 0
        commands: list[RemotingCommand] = []
        decode_json, unpack, take = self._decode_json, _PREFIX.unpack_from, self._take_sends
        position, end = 0, len(data)
        while end - position >= _PREFIX_SIZE:
            if take is not None:
                position = take(data, position, commands, self._max_frame, self._max_header)
                if end - position < _PREFIX_SIZE:
                    break
            length, mark = unpack(data, position)
            header_size = mark & 0xFFFFFF
            stop = position + _LENGTH_SIZE + length
            if length > self._max_frame - _LENGTH_SIZE or header_size > self._max_header:
                raise self._oversized(length, header_size, position)
            body_at = position + _PREFIX_SIZE + header_size
            if body_at > stop:
                raise RemotingProtocolError(f"header of {header_size} bytes in a frame of {length}", position)
            if stop > end:
                break
            header = data[position + _PREFIX_SIZE : body_at]
            try:
                command = decode_json(header) if mark == header_size else _decode_other(mark >> 24, header)
            except (ValueError, struct.error, RecursionError) as error:  # msgspec's errors are ValueErrors
                command = self._decode_mended(mark, header, position, error)
            command.body = data[body_at:stop]
            commands.append(command)
            position = stop
        if position < end:
            self._keep(data[position:], position)
        return commands

    def _decode_mended(self, mark: int, header: bytes, position: int, refused: Exception) -> RemotingCommand:
        try:
            if mark == len(header) and (mended := mended_json(header)) != header:
                return self._decode_json(mended)
        except (ValueError, RecursionError):
            pass
        raise RemotingProtocolError(f"unreadable header: {refused}", position) from None

    def _oversized(self, length: int, header_size: int, position: int) -> RemotingProtocolError:
        what, size, limit = "frame", length, self._max_frame
        if length <= self._max_frame - _LENGTH_SIZE:
            what, size, limit = "header", header_size, self._max_header
        return RemotingProtocolError(f"{what} of {size} bytes, at most {limit} allowed", position)

    def _keep(self, rest: bytes, position: int) -> None:
        """Start holding an unfinished frame; its length is checked as soon as it has arrived."""
        self._pieces = [rest]
        self.buffered = len(rest)
        self._needed = _PREFIX_SIZE
        if len(rest) >= _LENGTH_SIZE:
            length = int.from_bytes(rest[:_LENGTH_SIZE], "big")
            if not _LENGTH_SIZE <= length <= self._max_frame - _LENGTH_SIZE:
                raise RemotingProtocolError(f"frame of {length} bytes", position)
            self._needed = _LENGTH_SIZE + length

    def _hold(self, data: bytes) -> None:
        if len(self._pieces[-1]) < _MERGE_BELOW:
            self._pieces[-1] += data
        else:
            self._pieces.append(data)
        self.buffered += len(data)


def encode_command_parts(command: RemotingCommand) -> list[bytes]:
    """Prefix and header in one piece, then the body if there is one: big bodies needn't be copied."""
    header = _encode_binary_header(command) if command.binary else _encode_json_header(command)
    kind = _TYPE_BINARY if command.binary else _TYPE_JSON
    head = _PREFIX.pack(_LENGTH_SIZE + len(header) + len(command.body), kind << 24 | len(header)) + header
    return [head, command.body] if command.body else [head]


def encode_command(command: RemotingCommand) -> bytes:
    """The whole frame. ValueError when a field doesn't fit the header (our mistake, not the peer's)."""
    return b"".join(encode_command_parts(command))


def _encode_json_header(command: RemotingCommand) -> bytes:
    """Field order as fastjson writes it; empty extFields and a missing remark are left out."""
    return (
        b'{"code":%d,%b"flag":%d,"language":%b,"opaque":%d,%b"serializeTypeCurrentRPC":"JSON","version":%d}'
        % (
            command.code,
            b'"extFields":%b,' % _encode_json(command.ext) if command.ext else b"",
            command.flag,
            _encode_json(command.language),
            command.opaque,
            b'"remark":%b,' % _encode_json(command.remark) if command.remark is not None else b"",
            command.version,
        )
    )


def _encode_binary_header(command: RemotingCommand) -> bytes:
    pairs: list[bytes] = []
    try:
        for name, value in command.ext.items():
            raw_name, raw_value = name.encode(), value.encode()
            pairs += (
                struct.pack(">h", len(raw_name)),
                raw_name,
                struct.pack(">i", len(raw_value)),
                raw_value,
            )
        ext = b"".join(pairs)
        remark = (command.remark or "").encode()
        language = _LANGUAGE_NUMBERS.get(command.language, LanguageCode.OTHER)
        numbers = (command.code, language, command.version, command.opaque, command.flag, len(remark))
        return b"".join((_BINARY_HEAD.pack(*numbers), remark, struct.pack(">i", len(ext)), ext))
    except struct.error as error:
        raise ValueError(f"command {command.code} doesn't fit a binary header: {error}") from error


def send_response_fields(queue_id: int, queue_offset: int, msg_id: str) -> dict[str, str]:
    """The ext fields of the answer to a send whose message is stored.

    - queue_id: of the queue that the client is told
    - queue_offset: of the first message
    - msg_id: offset ids, a batch's joined by commas
    """
    fields = {"queueId": str(queue_id), "TRACE_ON": "true", "MSG_REGION": "DefaultRegion"}
    return fields | {"msgId": msg_id, "queueOffset": str(queue_offset)}


def encode_send_response(opaque: int, queue_id: int, queue_offset: int, msg_id: str) -> bytes:
    """The answer to a send in JSON with code 0, as one frame.

    The broker writes more of these than of everything else together, hence the template; the result equals
    `encode_command` of `send_response_fields` (the tests compare them).

    - opaque: of the request
    - queue_id, queue_offset, msg_id: see there
    """
    header = (
        f'{{"code":0,"extFields":{{"queueId":"{queue_id}","TRACE_ON":"true","MSG_REGION":"DefaultRegion",'
        f'"msgId":"{msg_id}","queueOffset":"{queue_offset}"}},"flag":1,"language":"JAVA","opaque":{opaque},'
        f'"serializeTypeCurrentRPC":"JSON","version":{V4_9_7}}}'
    ).encode()
    return _PREFIX.pack(_LENGTH_SIZE + len(header), len(header)) + header
