#!/usr/bin/env python3
"""Reads the files that a trainer wrote for TensorBoard, and compares them with its metrics file: every checksum, every
value. events_check.py FOLDER LOG.jsonl NAME=TAG... [--reader]: --reader reads them by TensorBoard's own reader."""
import glob
import json
import struct
import sys


def checksum(data):
    """CRC-32C, turned and moved as records have it."""
    crc = 0xffffffff
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82f63b78 if crc & 1 else 0)
    crc ^= 0xffffffff
    return ((crc >> 15 | crc << 17) + 0xa282ead8) & 0xffffffff


def records(data):
    """The records of a file."""
    offset = 0
    while offset < len(data):
        size, of_size = struct.unpack_from("<QI", data, offset)
        assert of_size == checksum(data[offset:offset + 8]), f"the length at {offset}"
        body = data[offset + 12:offset + 12 + size]
        assert struct.unpack_from("<I", data, offset + 12 + size)[0] == checksum(body), f"the record at {offset}"
        yield body
        offset += size + 16


def fields(data):
    """Numbers and values of a message's fields."""
    def varint():
        nonlocal offset
        value = shift = 0
        while True:
            byte = data[offset]
            offset += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value
    offset = 0
    while offset < len(data):
        key = varint()
        if key & 7 == 0:
            yield key >> 3, varint()
            continue
        size = {1: 8, 5: 4}.get(key & 7) or varint()
        yield key >> 3, data[offset:offset + size]
        offset += size


def read_plainly(folder):
    """{tag: [(step, value)]}, by this file's own reader."""
    found = {}
    paths = sorted(glob.glob(folder + "/events.out.tfevents.*"))
    assert paths
    for path in paths:
        first, *rest = records(open(path, "rb").read())
        assert (3, b"brain.Event:2") in list(fields(first))
        for record in rest:
            event = dict(fields(record))
            for _, value in fields(event[5]):
                value = dict(fields(value))
                found.setdefault(value[1].decode(), []).append((event[2], struct.unpack("<f", value[2])[0]))
    return found


def read_as_tensorboard(folder):
    """The same, by TensorBoard's reader."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    events = EventAccumulator(folder, size_guidance={"scalars": 0})
    events.Reload()
    return {tag: [(e.step, e.value) for e in events.Scalars(tag)] for tag in events.Tags()["scalars"]}


def main():
    """Compares."""
    folder, log, *names = [argument for argument in sys.argv[1:] if argument != "--reader"]
    found = (read_as_tensorboard if "--reader" in sys.argv else read_plainly)(folder)
    lines = [json.loads(line) for line in open(log)]
    for name in names:
        name, tag = name.split("=")
        step = "epoch" if "epoch" in lines[0] else "step"
        expected = [(line[step], line[name]) for line in lines if step in line and line.get(name) is not None]
        assert expected, tag
        assert [number for number, _ in found[tag]] == [number for number, _ in expected], (tag, found.get(tag))
        for (_, value), (_, logged) in zip(found[tag], expected):
            assert abs(value - logged) <= 1e-5 * abs(logged) + 1e-30, (tag, value, logged)
    print(f"{sum(map(len, found.values()))} values of {len(found)} names")


main()
