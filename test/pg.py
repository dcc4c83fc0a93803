"""A small PostgreSQL client over the unix socket, for tests that must know
SQLSTATEs, backend ids and lost connections. No library beyond python's own.

Session.run(sql) gives the rows of the last statement that returned some, each
a list of str or None, and raises PgError or, when the server went away, Lost.
"""
import os
import socket
import struct

FIELDS = {'C': 'code', 'M': 'message', 'D': 'detail', 'H': 'hint', 'W': 'where', 'S': 'severity', 'F': 'file',
          'L': 'line', 'n': 'constraint'}


class PgError(Exception):
    def __init__(self, fields):
        for name in FIELDS.values():
            setattr(self, name, fields.get(name, ''))
        super().__init__('%s: %s' % (self.code, self.message))


class Lost(Exception):
    """The connection ended."""


class Session:
    def __init__(self, db='postgres', options='', user=None, host=None, timeout=None):
        self.notices = []
        self.status = 'I'
        self.pid = self.key = None
        self.s = socket.socket(socket.AF_UNIX)
        self.s.settimeout(timeout)
        self.buf = b''
        try:
            self.s.connect('%s/.s.PGSQL.%s' % (host or os.environ['PGHOST'], os.environ.get('PGPORT', '5432')))
        except OSError as e:
            self.s.close()
            raise Lost(str(e))
        params = {'user': user or os.environ.get('PGUSER', 'postgres'), 'database': db, 'client_encoding': 'UTF8',
                  'application_name': 'cdc_test'}
        if options:
            params['options'] = options
        body = b''.join(k.encode() + b'\0' + v.encode() + b'\0' for k, v in params.items()) + b'\0'
        self._send_raw(struct.pack('!ii', len(body) + 8, 196608) + body)
        self._collect()

    def _send_raw(self, data):
        try:
            self.s.sendall(data)
        except OSError as e:
            # what the server said before it hung up still waits to be read
            self.dead = str(e)

    def _send(self, kind, body=b''):
        self._send_raw(kind + struct.pack('!i', len(body) + 4) + body)

    def _read(self, n):
        while len(self.buf) < n:
            try:
                more = self.s.recv(1 << 16)
            except socket.timeout:
                raise Lost('no answer within %s s' % self.s.gettimeout())
            except OSError as e:
                raise Lost(str(e))
            if not more:
                raise Lost('server closed the connection')
            self.buf += more
        out, self.buf = self.buf[:n], self.buf[n:]
        return out

    def _message(self):
        head = self._read(5)
        return chr(head[0]), self._read(struct.unpack('!i', head[1:])[0] - 4)

    def _collect(self):
        """Messages up to ReadyForQuery."""
        rows, error = [], None
        while True:
            kind, body = self._message()
            if kind == 'D':
                rows.append(self._row(body))
            elif kind == 'T':
                rows = []
            elif kind in 'EN':
                fields = {FIELDS[chr(f[0])]: f[1:].decode('utf-8', 'replace') for f in body.split(b'\0')
                          if f and chr(f[0]) in FIELDS}
                if kind == 'N':
                    self.notices.append(PgError(fields))
                else:
                    error = PgError(fields)
                    if error.severity in ('FATAL', 'PANIC'):
                        self.s.close()
                        if error.code in ('57P02', '57P03', '57P01'):
                            raise Lost(str(error))
                        raise error
            elif kind == 'K':
                self.pid, self.key = struct.unpack('!ii', body)
            elif kind == 'R' and struct.unpack('!i', body[:4])[0] != 0:
                raise Lost('the server wants a password')
            elif kind == 'G':
                self._send(b'f', b'no data\0')
            elif kind == 'Z':
                self.status = body.decode()
                if error:
                    raise error
                return rows

    @staticmethod
    def _row(body):
        n, = struct.unpack('!h', body[:2])
        at, row = 2, []
        for _ in range(n):
            size, = struct.unpack('!i', body[at:at + 4])
            at += 4
            row.append(None if size < 0 else body[at:at + size].decode('utf-8', 'replace'))
            at += max(size, 0)
        return row

    def send(self, sql):
        self._send(b'Q', sql.encode('utf-8', 'surrogateescape') + b'\0')

    def receive(self):
        return self._collect()

    def run(self, sql):
        self.send(sql)
        return self._collect()

    def value(self, sql):
        return self.run(sql)[0][0]

    def bind(self, sql, values):
        """Runs sql with parameters in binary form (bytes or None)."""
        self._send(b'P', b'\0' + sql.encode() + b'\0' + struct.pack('!h', 0))
        body = b'\0\0' + struct.pack('!hhh', 1, 1, len(values))
        for v in values:
            body += struct.pack('!i', -1) if v is None else struct.pack('!i', len(v)) + v
        self._send(b'B', body + struct.pack('!h', 0))
        self._send(b'E', b'\0' + struct.pack('!i', 0))
        self._send(b'S')
        return self._collect()

    def cancel(self):
        c = socket.socket(socket.AF_UNIX)
        c.connect(self.s.getpeername())
        c.sendall(struct.pack('!iiii', 16, 80877102, self.pid, self.key))
        # the server hangs up when it has sent the signal: nothing is cancelled later
        try:
            c.recv(1)
        except OSError:
            pass
        c.close()

    def close(self):
        try:
            self._send(b'X')
            self.s.close()
        except OSError:
            pass


def lit(v):
    """A SQL literal."""
    if v is None:
        return 'NULL'
    if isinstance(v, bool):
        return str(v).lower()
    if isinstance(v, int):
        return str(v)
    v = str(v)
    return (" E'" + v.replace('\\', '\\\\').replace("'", "''") + "'") if '\\' in v else "'" + v.replace("'", "''") + "'"


def ident(v):
    return '"' + v.replace('"', '""') + '"'
