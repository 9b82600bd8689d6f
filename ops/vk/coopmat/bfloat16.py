#!/usr/bin/env python3
"""Writes a SPIR-V module as a C header; for bf16, retypes every 16-bit float as bfloat16 first.

glslang 15 has no GL_EXT_bfloat16 yet. In SPIR-V a bfloat16 is OpTypeFloat 16 with the encoding BFloat16KHR
(SPV_KHR_bfloat16), so the module of the float16 shader differs in that operand, in its capabilities and in one
extension; loads, stores, conversions and cooperative-matrix instructions are the same.
"""
import struct
import sys

OP_EXTENSION, OP_EXT_INST_IMPORT, OP_MEMORY_MODEL, OP_CAPABILITY, OP_TYPE_FLOAT = 10, 11, 14, 17, 22
CAPABILITY_FLOAT16, CAPABILITY_BFLOAT16_TYPE, CAPABILITY_BFLOAT16_MATRIX = 9, 5116, 5118
ENCODING_BFLOAT16 = 0


def instruction(op, operands):
    return [(len(operands) + 1) << 16 | op] + operands


def string(text):
    data = text.encode() + b"\0"
    data += b"\0" * (-len(data) % 4)
    return list(struct.unpack("<%dI" % (len(data) // 4), data))


def retype(words):
    out, offset, extended = words[:5], 5, False
    while offset < len(words):
        count, op = words[offset] >> 16, words[offset] & 0xFFFF
        operands = words[offset + 1 : offset + count]
        offset += count
        if op == OP_CAPABILITY and operands == [CAPABILITY_FLOAT16]:
            out += instruction(op, [CAPABILITY_BFLOAT16_TYPE]) + instruction(op, [CAPABILITY_BFLOAT16_MATRIX])
            continue
        if op == OP_TYPE_FLOAT and operands[1] == 16:
            operands = operands + [ENCODING_BFLOAT16]
        if op in (OP_EXTENSION, OP_EXT_INST_IMPORT, OP_MEMORY_MODEL) and not extended:
            out += instruction(OP_EXTENSION, string("SPV_KHR_bfloat16"))
            extended = True
        out += instruction(op, operands)
    return out


def main():
    kind, name, source, digest, path = sys.argv[1:]
    with open(path, "rb") as file:
        data = file.read()
    words = list(struct.unpack("<%dI" % (len(data) // 4), data))
    if kind == "bf16":
        words = retype(words)
    print("/* %s as SPIR-V, elements %s. Made by build.sh." % (source, kind))
    print(" * SHA-256 of its sources: %s */" % digest)
    print("/* clang-format off */")
    print("#include <stdint.h>")
    print("static const uint32_t %s[] = {" % name)
    for offset in range(0, len(words), 12):
        print("    " + " ".join("0x%08x," % word for word in words[offset : offset + 12]))
    print("};")


main()
