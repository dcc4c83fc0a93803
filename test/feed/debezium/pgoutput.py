#!/usr/bin/env python3
"""Reads pgoutput messages (protocol version 1), one "lsn|hex" a line, and writes
a line of COPY's text format per change: table, op, lsn, commit LSN, columns,
old key or old row, names of the columns that are not carried (jsonb objects
of text values, and an array)."""
import json
import struct
import sys

relations = {}   # oid: name, columns
commit_lsn = None


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, form):
        values = struct.unpack_from(">" + form, self.data, self.at)
        self.at += struct.calcsize(">" + form)
        return values[0]

    def char(self):
        return self.take("c").decode()

    def text(self):
        end = self.data.index(b"\0", self.at)
        value = self.data[self.at:end].decode()
        self.at = end + 1
        return value

    def row(self, columns):
        """The values of a row, and the names of those that are not carried."""
        values, unchanged = {}, []
        for name in columns[:self.take("h")]:
            kind = self.char()
            if kind == "n":
                values[name] = None
            elif kind == "u":
                unchanged.append(name)
            else:
                length = self.take("i")
                values[name] = self.data[self.at:self.at + length].decode()
                self.at += length
        return values, unchanged


def escape(text):
    return text.replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n")


def write(table, op, lsn, values=None, old=None, unchanged=()):
    cells = [table, op, lsn, commit_lsn,
             json.dumps(values) if values is not None else None,
             json.dumps(old) if old is not None else None,
             "{" + ",".join(unchanged) + "}" if unchanged else None]
    print("\t".join("\\N" if cell is None else escape(cell) for cell in cells))


for line in sys.stdin:
    lsn, data = line.rstrip("\n").split("|")
    r = Reader(bytes.fromhex(data))
    message = r.char()
    if message == "B":
        number = r.take("Q")
        commit_lsn = "%X/%X" % (number >> 32, number & 0xFFFFFFFF)
    elif message == "R":
        oid = r.take("I")
        r.text()
        name = r.text()
        r.take("b")
        columns = []
        for _ in range(r.take("h")):
            r.take("b")
            columns.append(r.text())
            r.take("I")
            r.take("i")
        relations[oid] = (name, columns)
    elif message in "IUD":
        name, columns = relations[r.take("I")]
        old = None
        kind = kind_of_old = r.char()
        if kind in "KO":
            old, _ = r.row(columns)
            kind = r.char() if message != "D" else None
        if message == "D":
            write(name, "d", lsn, old)
        else:
            values, unchanged = r.row(columns)
            if kind_of_old == "O":   # the whole old row: it has what is unchanged
                values.update({name: old[name] for name in unchanged})
                unchanged = []
            write(name, "c" if message == "I" else "u", lsn, values, old, unchanged)
    elif message == "T":
        count = r.take("I")
        r.take("b")
        for _ in range(count):
            write(relations[r.take("I")][0], "t", lsn)
