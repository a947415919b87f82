# SPDX-License-Identifier: Apache-2.0
"""network: says why a host could not be reached, in the exception that a library raises.

It decides nothing: the broker, outside the box, judges every connection whether this module asks or
not. broker/box_question.h describes the questions. display.py calls a function of ADOPT after a library is
imported, in the zygote or by user code; the rest runs in the user process of a box, beside user code,
under the rules of runner.py. A box without network has no broker to ask: attempts are recorded for
the answer of the run. Its sockets, if it may have any (--loopback), reach the box itself.
"""

import _socket
from _socket import AF_INET, AF_INET6, AF_UNIX, SO_ERROR, SOCK_DGRAM, SOCK_STREAM, SOL_SOCKET
from _socket import gaierror, gethostname, herror, inet_ntop, inet_pton
from _thread import get_ident
from errno import EACCES, EAFNOSUPPORT, EAGAIN, ECONNABORTED, ECONNREFUSED, ECONNRESET
from errno import EINPROGRESS, EINVAL, ENETUNREACH, EPERM, EPIPE, EPROTONOSUPPORT, ESOCKTNOSUPPORT
from sys import implementation, modules
from time import monotonic

from base import __builtins__           # first: functions look builtins up there
from base import Box, clip, in_c

BROKER = "127.0.0.1", 54
ASK_MAX = 1024              # bytes of a question and of an answer
ANSWER_S = 1                # how long to wait for the broker; without an answer the call goes on
TAKEN_S = 0.2               # the same when code may want a server of its own
DIAL_S = 15                 # the same while the broker connects, for sockets without a time-out
EVENTS_MAX = 16             # different events of a run
NAME_MAX = 253
ENDS_MAX = 100              # connections whose end is remembered
NAMES_MAX = 1000            # names whose address is remembered
STAND_FOR = "198.18.", "198.19."        # the addresses that the broker gives out for names
ANYWHERE = "198.18.0.0", 9              # one of them
REASONS_MAX = 4             # of several failed attempts

NO_NETWORK = "code has no network here"
OFF = "network is off for this run"      # what helps depends on who asked: the gate says it as a hint
NEVER = "boxes never have raw, ICMP, netlink or packet sockets"
TCP, UDP = 6, 17
FLAGS = getattr(_socket, "SOCK_NONBLOCK", 0) | getattr(_socket, "SOCK_CLOEXEC", 0)
DENIALS = EACCES, EPERM, EAFNOSUPPORT, EPROTONOSUPPORT, ESOCKTNOSUPPORT, EINVAL
# Errors of a look-up whose arguments were valid.
LOOKUP = {getattr(_socket, name, 0) for name in
          ("EAI_NONAME", "EAI_AGAIN", "EAI_FAIL", "EAI_NODATA", "EAI_ADDRFAMILY")}

# The functions that are replaced.
Socket = _socket.socket
SocketTimeout = _socket.timeout         # TimeoutError itself since 3.10
plain_getaddrinfo, plain_gethostbyname = _socket.getaddrinfo, _socket.gethostbyname
plain_gethostbyname_ex = _socket.gethostbyname_ex
plain_connect, plain_connect_ex = Socket.connect, Socket.connect_ex
plain_sendto, plain_sendmsg = Socket.sendto, Socket.sendmsg
plain_sendall = Socket.sendall
plain_init = Socket.__init__
plain_sock_connect = plain_create_server = None     # of asyncio: see ADOPT
plain_do_handshake = None   # of ssl
# Methods that subclasses override.
family_of, kind_of, timeout_of = Socket.family.__get__, Socket.type.__get__, Socket.gettimeout
option_of, peer_of, fd_of = Socket.getsockopt, Socket.getpeername, Socket.fileno
name_of = Socket.getsockname


class State:
    """What this process knows."""
    adopted = False         # whether the module socket was adopted
    kind = None             # the class of its sockets, until explain_ends()
    on = None               # whether there is a network; None: not known yet
    loopback = False        # with `on` False: whether there are sockets that reach the box itself
    sought = 0, "", None, []    # thread, host, port, families: the last look-up that worked
    names = {}              # address given out by the broker -> its name
    ends = {}               # descriptor -> (own port, why the broker ended it), after a failure to send
    asked = set()           # (thread, descriptor) of sockets that sock_connect() has asked about


State = State()


def is_on():
    """Is there a network? Only a box with one has a way to every address."""
    if State.on is None:
        probe = None
        try:
            probe = Socket(AF_INET, SOCK_DGRAM)
            plain_connect(probe, ANYWHERE)      # of a datagram socket: nothing is sent
            State.on = True
        except OSError as exc:
            if exc.errno not in (EAFNOSUPPORT, ENETUNREACH):
                return True             # too many open files, and the like
            State.on, State.loopback = False, exc.errno == ENETUNREACH
        finally:
            if probe is not None:
                probe.close()
    return State.on


# ---- Questions ----------------------------------------------------------------------------------

def understand(data):
    """Parses an answer of the broker: (errno, text), () for `ok`, None if it is invalid."""
    word, _, rest = data.decode("utf-8", "replace").partition(" ")
    number, _, text = rest.partition(" ")
    if word == "no" and number.isdigit() and len(number) < 6 and text:
        return int(number), clip(text, ASK_MAX)
    return () if word == "ok" else None


def ask(question, seconds=ANSWER_S):
    """Asks the broker. Each question has its own socket, so that threads and forks do not interfere."""
    try:
        channel = Socket(AF_INET, SOCK_DGRAM)
    except OSError:
        return None
    try:
        channel.settimeout(seconds)
        plain_connect(channel, BROKER)
        channel.send(question.encode())
        return understand(channel.recv(ASK_MAX))
    except (OSError, ValueError):
        return None
    finally:
        channel.close()


def say(exc, text):
    """Changes the text of an OSError of any class."""
    exc.args, exc.strerror = (exc.errno, text), text


def target_of(host, port):
    return f"[{host}]:{port}" if ":" in host and port else f"{host}:{port}" if port else host


def record(action, target, hint, **more):
    """Records an event in a box without network; else the broker records it."""
    for event in Box.events:
        if event["action"] == action and event["target"] == target:
            event["count"] += 1
            return
    if len(Box.events) < EVENTS_MAX:
        Box.events = [*Box.events, {"kind": "network", "action": action, "target": target,
                                    "layer": "box", "hint": hint, "count": 1, **more}]


def record_off(action, host, port):
    more = {"host": host, "port": port} if port else {"host": host}
    record(action, target_of(host, port), NO_NETWORK, rule="network: off", reason="network_off", **more)


# ---- Names --------------------------------------------------------------------------------------

def askable(host):
    """A name as the broker reads it; None if it is not a name."""
    try:
        if isinstance(host, str):
            name = str.__str__(host)
            name = name if name.isascii() else name.encode("idna").decode()
        else:
            name = bytes(host).decode("ascii")
    except (TypeError, ValueError):
        return None
    fits = 0 < len(name) <= NAME_MAX + 1    # a name may end with a dot
    return name if fits and name.isprintable() and " " not in name else None


def port_of(port):
    """The port number from an argument of getaddrinfo(), or None."""
    text = port if type(port) in (int, str) else ""
    return int(text) if text and str(text).isdecimal() and len(str(text)) < 6 else None


def explain_lookup(exc, host, port=None):
    name = askable(host)
    if name is None:
        return
    if is_on():
        answer = ask(f"why {name}")
        if answer:
            say(exc, answer[1])
    elif name != gethostname():         # code may look up its own host
        record_off("resolve", name, port_of(port))
        say(exc, f"cannot resolve '{name}': {OFF}")


def getaddrinfo(host, port, family=0, type=0, proto=0, flags=0):
    try:
        found = plain_getaddrinfo(host, port, family, type, proto, flags)
    except gaierror as exc:
        if exc.errno in LOOKUP and not flags & _socket.AI_NUMERICHOST:
            explain_lookup(exc, host, port)
        raise
    where = found[0][4][0] if found else None
    if isinstance(host, str) and isinstance(where, str) and where.startswith(STAND_FOR):
        if len(State.names) == NAMES_MAX:
            State.names.clear()
        State.names[where] = host
    if not State.on and host:           # for explain_socket()
        families = [item[0] for item in found]
        State.sought = get_ident(), askable(host) or "", port_of(port), families
    return found


def gethostbyname(host, /):
    try:
        return plain_gethostbyname(host)
    except gaierror as exc:
        explain_lookup(exc, host)
        raise


def gethostbyname_ex(host, /):
    try:
        return plain_gethostbyname_ex(host)
    except (gaierror, herror) as exc:
        explain_lookup(exc, host)
        raise


# ---- Addresses ----------------------------------------------------------------------------------

def packed(family, host):
    try:
        return inet_pton(family, host)
    except (OSError, ValueError):
        return None


def is_local(address):
    """Are these bytes an address of the box itself?"""
    if len(address) == 16 and address[:12] == bytes(10) + b"\xff\xff":
        address = address[12:]
    if len(address) == 4:
        return address[0] == 127 or address == bytes(4)
    return address in (bytes(16), bytes(15) + b"\1")


def destination_of(sock, address):
    """(address as text, port, whether it is in the box, argument for connect()); None if the address
    is invalid or needs no explanation."""
    family = family_of(sock)
    if family not in (AF_INET, AF_INET6) or type(address) is not tuple or len(address) < 2:
        return None
    host, port = address[:2]
    if type(host) is not str or type(port) is not int or not 0 < port < 65536:
        return None
    where = packed(family, host)
    if where is None:
        if host in ("", "<broadcast>"):
            return None
        # Looks the name up as connect() does, but explains a failure.
        found = getaddrinfo(host, port, family, kind_of(sock))[0][4]
        address = (found[0], port, *address[2:]) if len(address) > 2 else found
        where = packed(family, found[0])
        if where is None:
            return None
    return inet_ntop(family, where), port, is_local(where), address


# ---- Connections --------------------------------------------------------------------------------

def is_connected(sock):
    try:
        peer_of(sock)
        return True
    except OSError:
        return False


def consult(sock, text, port):
    """Asks the broker about a connection, and waits as long as the socket would."""
    seconds = timeout_of(sock)
    if State.kind is not None:
        explain_ends()
    if seconds == 0:
        return ask(f"connect {text} {port} now")
    began = monotonic()
    answer = ask(f"connect {text} {port} wait", min(seconds or DIAL_S, DIAL_S))
    if answer is None and seconds is not None and monotonic() - began >= seconds:
        name = State.names.get(text, text)
        raise SocketTimeout(f"timed out: '{name}' port {port} did not answer within {seconds:g} s")
    return answer


def is_brokers(port):
    """Does the broker listen on this port of the box for another host? Then connections to the box
    itself also reach the broker."""
    return ask(f"taken {port}", TAKEN_S) == ()


def connect_again(sock, address):
    """Connects again: on a non-blocking socket Linux first reports the earlier failure."""
    try:
        return plain_connect(sock, address)
    except OSError as exc:
        if exc.errno not in (ECONNABORTED, ECONNREFUSED):
            raise
    return plain_connect(sock, address)


def connect_locally(sock, text, port, address):
    """Connects to the box itself, where code may have a server. Only if it has none, the broker is asked
    for one outside."""
    try:
        return plain_connect(sock, address)
    except OSError as exc:
        number = exc.errno
        if number == EINPROGRESS:       # inside a box the outcome is already known
            number = option_of(sock, SOL_SOCKET, SO_ERROR)
        if number != ECONNREFUSED:
            raise
    answer = consult(sock, text, port)
    if answer == ():
        return connect_again(sock, address)
    number, reason = answer or (ECONNREFUSED, "")
    # Code that waits for its server to start expects this error.
    number = ECONNREFUSED if number in (EACCES, EPERM) else number
    reason = f"nothing listens on {text} port {port} in this box" + (reason and f"; {reason}")
    raise OSError(number, reason)


def refuse_off(action, text, port):
    """Raises the kernel's error for an address without a route, with the reason."""
    record_off(action, text, port)
    raise OSError(ENETUNREACH, f"cannot connect to {target_of(text, port)}: {OFF}")


def note_udp(text, port):
    if not is_on():
        refuse_off("udp", text, port)
    answer = ask(f"note udp {text} {port}")
    if answer:
        raise OSError(*answer)


def connect(self, address, /):
    kind = kind_of(self)
    found = destination_of(self, address) if kind in (SOCK_STREAM, SOCK_DGRAM) else None
    if found is None or is_connected(self):
        return plain_connect(self, address)
    text, port, local, address = found
    State.ends.pop(fd_of(self), None)       # of an earlier socket with this descriptor
    if kind == SOCK_DGRAM:
        if not local:
            note_udp(text, port)
    elif not is_on():
        if not local:
            refuse_off("connect", text, port)
    elif local and not is_brokers(port):
        return connect_locally(self, text, port, address)
    elif State.asked and (get_ident(), fd_of(self)) in State.asked:
        State.asked.discard((get_ident(), fd_of(self)))
    else:
        answer = consult(self, text, port)
        if answer:
            raise OSError(*answer)
    return plain_connect(self, address)


def connect_ex(self, address, /):
    if family_of(self) not in (AF_INET, AF_INET6):
        return plain_connect_ex(self, address)
    try:
        connect(self, address)
        return 0
    except (gaierror, herror):
        raise
    except OSError as exc:
        return exc.errno or EAGAIN      # EAGAIN for a time-out


def sendto(self, data, *rest):
    if kind_of(self) == SOCK_DGRAM and rest:
        found = destination_of(self, rest[-1])
        if found is not None and not found[2]:
            note_udp(*found[:2])
    return plain_sendto(self, data, *rest)


def sendmsg(self, *args):
    if kind_of(self) == SOCK_DGRAM and len(args) > 3:
        found = destination_of(self, args[3])
        if found is not None and not found[2]:
            note_udp(*found[:2])
    return plain_sendmsg(self, *args)


# ---- Connections that the broker ends -----------------------------------------------------------
# A denied request, a used-up quota or changed rules: code sees a connection reset.

def explain_end(sock, exc):
    if exc.errno in (ECONNRESET, EPIPE) and family_of(sock) in (AF_INET, AF_INET6):
        try:
            answer = ask(f"closed {name_of(sock)[1]}")
        except OSError:
            return None
        if answer:
            say(exc, answer[1])
            return answer[1]
    return None


def check_end(sock):
    """Called at the end of the input: libraries ignore the error of sending and wait for an answer."""
    port, text = State.ends.pop(fd_of(sock), (0, ""))
    if port and family_of(sock) in (AF_INET, AF_INET6) and name_of(sock)[1] == port:
        raise OSError(ECONNRESET, text)


def reading(plain):
    def read(self, *args, **kwargs):
        try:
            got = plain(self, *args, **kwargs)
        except OSError as exc:
            explain_end(self, exc)
            raise
        if not got and State.ends:
            check_end(self)
        return got
    return read


recv, recv_into = reading(Socket.recv), reading(Socket.recv_into)


def sendall(self, *args):
    try:
        return plain_sendall(self, *args)
    except OSError as exc:
        text = explain_end(self, exc)
        if text and len(State.ends) < ENDS_MAX:
            State.ends[fd_of(self)] = name_of(self)[1], text
        raise


def do_handshake(self, *args, **kwargs):
    try:
        return plain_do_handshake(self, *args, **kwargs)
    except OSError as exc:
        explain_end(self, exc)
        raise


def explain_ends():
    """Called before the first connection that leaves the box; until then sockets stay unchanged."""
    kind, State.kind = State.kind, None
    for name, function in ("recv", recv), ("recv_into", recv_into), ("sendall", sendall):
        in_destination_of(kind, name, function)


# ---- New sockets --------------------------------------------------------------------------------

def sought(family):
    """(host, port) for which a socket could not be made, from the look-up before it, once for each
    address."""
    thread, host, port, families = State.sought
    if thread != get_ident() or family not in families:
        return "", None
    families.remove(family)
    return host, port


def explain_socket(exc, family, kind, proto):
    is_inet = family in (AF_INET, AF_INET6)
    if is_inet and kind in (SOCK_STREAM, SOCK_DGRAM) and proto in (0, TCP, UDP):
        if is_on() or State.loopback:
            return          # there is no IPv6
        host, port = sought(family)
        say(exc, f"cannot connect to {target_of(host, port)}: {OFF}" if host else OFF)
        # Not recorded: libraries test for IPv6 when they are imported.
        if host or family == AF_INET:
            record_off("udp" if kind == SOCK_DGRAM else "connect", host or "unknown", port)
        return
    what = f"a socket of family {family}, type {kind}, protocol {proto} cannot be made"
    if not is_on():
        record("raw", f"family {family}, type {kind}, protocol {proto}", NEVER,
               reason="no_such_sockets")
        say(exc, f"{what}: {NEVER}")
        return
    answer = ask(f"note raw {family} {kind} {proto}")
    if answer:
        say(exc, answer[1])


def init(self, family, type, proto, fileno):
    """Called by socket.socket(), which has filled in the defaults."""
    try:
        plain_init(self, family, type, proto, fileno)
    except OSError as exc:
        if fileno is None and exc.errno in DENIALS and family != AF_UNIX:
            if family == AF_INET and exc.errno == EAFNOSUPPORT:
                State.on = False        # is_on() need not try
            explain_socket(exc, int(family), int(type) & ~FLAGS, int(proto))
        raise


# ---- asyncio and the like ------------------------------------------------------------------------
# Its sockets do not block, so the event loop waits for the broker's answer.

async def ask_slowly(loop, question):
    channel = Socket(AF_INET, SOCK_DGRAM)
    try:
        channel.settimeout(0)
        plain_connect(channel, BROKER)
        channel.send(question.encode())
        wait_for = modules["asyncio"].wait_for
        return understand(await wait_for(loop.sock_recv(channel, ASK_MAX), DIAL_S))
    finally:
        channel.close()


async def consult_slowly(loop, sock, address):
    """(errno, text) to raise, True if the broker allows it or gave no answer, None if it was not asked."""
    try:
        if kind_of(sock) != SOCK_STREAM or packed(family_of(sock), address[0]) is None:
            return None                 # a name: connect() asks
        found = destination_of(sock, address)
        if found is None or is_connected(sock) or not is_on():
            return None                 # without network connect() decides
        if found[2] and not is_brokers(found[1]):
            return None
        if State.kind is not None:
            explain_ends()
        return await ask_slowly(loop, f"connect {found[0]} {found[1]} wait") or True
    except Exception:                   # also the time-out of wait_for()
        return True


async def sock_connect(self, sock, address):
    answer = await consult_slowly(self, sock, address)
    if type(answer) is tuple:
        raise OSError(*answer)
    mark = None
    if answer:
        mark = get_ident(), fd_of(sock)
        State.asked.add(mark)
    try:
        return await plain_sock_connect(self, sock, address)
    finally:
        State.asked.discard(mark)


async def create_server(self, *args, **kwargs):
    """asyncio goes on without a socket for an address that the machine lacks: without loopback a box lacks all."""
    server = await plain_create_server(self, *args, **kwargs)
    if not server.sockets and not is_on() and not State.loopback:
        raise OSError(EAFNOSUPPORT, OFF)
    return server


def reasons_of(cause):
    causes = getattr(cause, "exceptions", None) or [cause]
    texts = {str(exc): None for exc in causes[:REASONS_MAX] if isinstance(exc, OSError)}
    return "; ".join(texts)             # each once, in order


def with_reasons(connect):
    """For a function that tries several addresses: adds the reasons to its error."""
    async def connect_with_reasons(*args, **kwargs):
        try:
            return await connect(*args, **kwargs)
        except OSError as exc:
            reasons = reasons_of(exc.__cause__)
            if reasons and len(exc.args) == 1:
                exc.args = f"{exc}: {reasons}",
            raise
    return like(connect_with_reasons, connect)


# ---- Installing ---------------------------------------------------------------------------------

def in_destination_of(owner, name, function):
    setattr(owner, name, in_c(owner, name, function, getattr(owner, name)))


def with_init(old):
    """socket.socket.__init__() itself, but its global `_socket.socket.__init__` is ours: signature, line
    and frame stay the same."""
    kind = type(implementation)         # SimpleNamespace
    init_in_c = in_c(_socket, "__init__", init, plain_init)
    known = {name: old.__globals__[name] for name in old.__code__.co_names
             if name in old.__globals__}
    known.update(__builtins__=old.__globals__["__builtins__"], __name__=old.__module__,
                 _socket=kind(socket=kind(__init__=init_in_c)))
    new = type(old)(old.__code__, known, old.__name__, old.__defaults__, old.__closure__)
    new.__dict__.update(old.__dict__)
    for name in "__qualname__", "__doc__", "__kwdefaults__", "__annotations__":
        setattr(new, name, getattr(old, name))
    return new


def like(function, old):
    """Makes our function look like a Python function."""
    for name in "__name__", "__qualname__", "__doc__", "__module__":
        setattr(function, name, getattr(old, name))
    function.__wrapped__ = old          # for inspect.signature()
    return function


def adopt_socket(module):
    kind = module.socket
    if State.adopted or not issubclass(kind, Socket) or kind is Socket:
        return
    State.adopted, State.kind = True, kind
    kind.__init__ = with_init(kind.__init__)
    for name, function in (("connect", connect), ("connect_ex", connect_ex), ("sendto", sendto),
                           ("sendmsg", sendmsg)):
        in_destination_of(kind, name, function)
    in_destination_of(_socket, "getaddrinfo", getaddrinfo)        # socket.getaddrinfo() calls it
    for name, function in ("gethostbyname", gethostbyname), ("gethostbyname_ex", gethostbyname_ex):
        in_destination_of(_socket, name, function)
        setattr(module, name, getattr(_socket, name))       # the module has copied them


def adopt_ssl(module):
    global plain_do_handshake
    if plain_do_handshake is None:
        plain_do_handshake = module.SSLSocket.do_handshake
        in_destination_of(module.SSLSocket, "do_handshake", do_handshake)


def adopt_asyncio(module):
    global plain_sock_connect, plain_create_server
    loop = module.BaseSelectorEventLoop
    if plain_sock_connect is None:
        plain_sock_connect, plain_create_server = loop.sock_connect, loop.create_server
        loop.sock_connect = like(sock_connect, plain_sock_connect)
        loop.create_server = like(create_server, plain_create_server)


def adopt_anyio(module):
    module.connect_tcp = with_reasons(module.connect_tcp)


def adopt_trio(module):
    module.open_tcp_stream = with_reasons(module.open_tcp_stream)


ADOPT = {
    "socket": adopt_socket, "ssl": adopt_ssl, "asyncio.selector_events": adopt_asyncio,
    "anyio._core._sockets": adopt_anyio, "trio._highlevel_open_tcp_stream": adopt_trio,
}
