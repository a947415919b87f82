# SPDX-License-Identifier: Apache-2.0
"""network: says why a host could not be reached, in the very exception that a library raises.

It decides nothing: the broker, outside the box, judges what code does whether it asks or not. What
is asked here, and how, is in broker/ask.h. display.py calls a function of ADOPT for a library when
it was imported, in the zygote or by user code; the rest runs in the user process of a box, among
user code, under the rules of runner.py. In a box without network there is nobody to ask, and what
was tried is noted for the answer of the run.
"""

import _socket
from _socket import AF_INET, AF_INET6, AF_UNIX, SO_ERROR, SOCK_DGRAM, SOCK_STREAM, SOL_SOCKET
from _socket import gaierror, gethostname, herror, inet_ntop, inet_pton
from _thread import get_ident
from errno import EACCES, EAFNOSUPPORT, EAGAIN, ECONNABORTED, ECONNREFUSED, ECONNRESET
from errno import EINPROGRESS, EINVAL, EPERM, EPIPE, EPROTONOSUPPORT, ESOCKTNOSUPPORT
from sys import implementation, modules
from time import monotonic

from base import __builtins__           # first: functions look builtins up there
from base import Box, clip

BROKER = "127.0.0.1", 54
ASK_MAX = 1024              # bytes of a question and of an answer
ANSWER_S = 1                # how long the broker is waited for; without an answer all goes its way
TAKEN_S = 0.2               # the same when code may only want its own server
DIAL_S = 15                 # the same while it dials, for sockets without a time-out
EVENTS_MAX = 16             # different ones of a run
NAME_MAX = 253
ENDS_MAX = 100              # connections whose end is remembered
NAMES_MAX = 1000            # of which the address is remembered
STAND_FOR = "198.18.", "198.19."        # the addresses that the broker gives out for names
REASONS_MAX = 4             # of several attempts that failed

ASK = "ask with the `network` argument, or the operator allows hosts with --allow-host"
OFF = f"network is off for this run; {ASK}"
NEVER = "boxes have no raw, ICMP, netlink or packet sockets, with or without network"
TCP, UDP = 6, 17
FLAGS = getattr(_socket, "SOCK_NONBLOCK", 0) | getattr(_socket, "SOCK_CLOEXEC", 0)
REFUSALS = EACCES, EPERM, EAFNOSUPPORT, EPROTONOSUPPORT, ESOCKTNOSUPPORT, EINVAL
# What a look-up fails with when the question was all right.
LOOKUP = {getattr(_socket, name, 0) for name in
          ("EAI_NONAME", "EAI_AGAIN", "EAI_FAIL", "EAI_NODATA", "EAI_ADDRFAMILY")}

# What is replaced, as it was.
Socket = _socket.socket
SocketTimeout = _socket.timeout         # TimeoutError itself since 3.10
plain_getaddrinfo, plain_gethostbyname = _socket.getaddrinfo, _socket.gethostbyname
plain_gethostbyname_ex = _socket.gethostbyname_ex
plain_connect, plain_connect_ex = Socket.connect, Socket.connect_ex
plain_sendto, plain_sendmsg = Socket.sendto, Socket.sendmsg
plain_sendall = Socket.sendall
plain_init = Socket.__init__
plain_sock_connect = None   # of asyncio: see ADOPT
plain_do_handshake = None   # of ssl
# The same of what subclasses give another look.
family_of, kind_of, timeout_of = Socket.family.__get__, Socket.type.__get__, Socket.gettimeout
option_of, peer_of, fd_of = Socket.getsockopt, Socket.getpeername, Socket.fileno
name_of = Socket.getsockname


class State:
    """What this process has found out."""
    adopted = False         # the module socket is
    kind = None             # its class, until its sockets explain their ends as well
    on = None               # whether there is a network; None: nobody has looked
    sought = 0, "", None, []    # thread, host, port, families: the last look-up that worked
    names = {}              # address that stands for a name -> that name
    ends = {}               # descriptor -> (own port, why the broker ended it), after a failure to send
    asked = set()           # (thread, descriptor) of sockets that sock_connect() has asked for


State = State()


def is_on():
    """A box without network cannot make such sockets."""
    if State.on is None:
        try:
            Socket(AF_INET, SOCK_DGRAM).close()
            State.on = True
        except OSError as exc:
            if exc.errno != EAFNOSUPPORT:
                return True             # too many open files, and the like
            State.on = False
    return State.on


# ---- Questions ----------------------------------------------------------------------------------

def understand(data):
    """An answer of the broker: (errno, text), or () for `ok`; None: it is no answer."""
    word, _, rest = data.decode("utf-8", "replace").partition(" ")
    number, _, text = rest.partition(" ")
    if word == "no" and number.isdigit() and len(number) < 6 and text:
        return int(number), clip(text, ASK_MAX)
    return () if word == "ok" else None


def ask(question, seconds=ANSWER_S):
    """Each question has a socket of its own, so that threads and forks do not meet."""
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
    """Puts a text into an OSError of whatever class, which stays what it is."""
    exc.args, exc.strerror = (exc.errno, text), text


def target_of(host, port):
    return f"[{host}]:{port}" if ":" in host and port else f"{host}:{port}" if port else host


def record(action, target, hint, **more):
    """For a box without network: with one, the broker has seen it all."""
    for event in Box.events:
        if event["action"] == action and event["target"] == target:
            event["count"] += 1
            return
    if len(Box.events) < EVENTS_MAX:
        Box.events = [*Box.events, {"kind": "network", "action": action, "target": target,
                                    "layer": "box", "hint": hint, "count": 1, **more}]


def record_off(action, host, port):
    more = {"host": host, "port": port} if port else {"host": host}
    record(action, target_of(host, port), ASK, rule="network: off", reason="network_off", **more)


# ---- Names --------------------------------------------------------------------------------------

def askable(host):
    """A name as it stands in a question; None: that is no name."""
    try:
        if isinstance(host, str):
            name = str.__str__(host)
            name = name if name.isascii() else name.encode("idna").decode()
        else:
            name = bytes(host).decode("ascii")
    except (TypeError, ValueError):
        return None
    fits = 0 < len(name) <= NAME_MAX + 1    # with the dot that a name may end with
    return name if fits and name.isprintable() and " " not in name else None


def port_of(port):
    """The number, of what getaddrinfo() may be given; None: it has none, or another name."""
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
    elif name != gethostname():         # which code asks for to learn about itself
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
    if not State.on and host:           # in case no socket can be made for it
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


# ---- Places -------------------------------------------------------------------------------------

def packed(family, host):
    try:
        return inet_pton(family, host)
    except (OSError, ValueError):
        return None


def is_local(address):
    """Whether these bytes are an address of the box itself."""
    if len(address) == 16 and address[:12] == bytes(10) + b"\xff\xff":
        address = address[12:]
    if len(address) == 4:
        return address[0] == 127 or address == bytes(4)
    return address in (bytes(16), bytes(15) + b"\1")


def place_of(sock, address):
    """(address as text, port, whether it is in the box, what connect() is to be given); None for
    what is no place, or not one to explain."""
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
        # As connect() does it, but explained when it fails.
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
    """What the broker says to a connection, for as long as the socket would wait for it."""
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
    """Whether the broker listens on a port of the box, for some host's sake: then it gets the
    connections to the box itself as well."""
    return ask(f"taken {port}", TAKEN_S) == ()


def connect_again(sock, address):
    """A socket that does not wait still owes Linux the news that its first try failed."""
    try:
        return plain_connect(sock, address)
    except OSError as exc:
        if exc.errno not in (ECONNABORTED, ECONNREFUSED):
            raise
    return plain_connect(sock, address)


def connect_locally(sock, text, port, address):
    """To the box itself: code may have a server of its own. Only if it has none may there be one
    outside that the rules allow."""
    try:
        return plain_connect(sock, address)
    except OSError as exc:
        number = exc.errno
        if number == EINPROGRESS:       # what became of it is known already, within a box
            number = option_of(sock, SOL_SOCKET, SO_ERROR)
        if number != ECONNREFUSED:
            raise
    answer = consult(sock, text, port)
    if answer == ():
        return connect_again(sock, address)
    number, reason = answer or (ECONNREFUSED, "")
    # Code that waits for its server to come up expects this error and no other.
    number = ECONNREFUSED if number in (EACCES, EPERM) else number
    reason = f"nothing listens on {text} port {port} in this box" + (reason and f"; {reason}")
    raise OSError(number, reason)


def note_udp(text, port):
    answer = ask(f"note udp {text} {port}")
    if answer:
        raise OSError(*answer)


def connect(self, address, /):
    kind = kind_of(self)
    place = place_of(self, address) if kind in (SOCK_STREAM, SOCK_DGRAM) else None
    if place is None or is_connected(self):
        return plain_connect(self, address)
    text, port, local, address = place
    State.ends.pop(fd_of(self), None)       # of one that had this descriptor before
    if kind == SOCK_DGRAM:
        if not local:
            note_udp(text, port)
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
        return exc.errno or EAGAIN      # that of a time-out


def sendto(self, data, *rest):
    if kind_of(self) == SOCK_DGRAM and rest:
        place = place_of(self, rest[-1])
        if place is not None and not place[2]:
            note_udp(*place[:2])
    return plain_sendto(self, data, *rest)


def sendmsg(self, *args):
    if kind_of(self) == SOCK_DGRAM and len(args) > 3:
        place = place_of(self, args[3])
        if place is not None and not place[2]:
            note_udp(*place[:2])
    return plain_sendmsg(self, *args)


# ---- Connections that the broker ends -----------------------------------------------------------
# A request that no rule allows, a quota that is used up, rules that have changed: code sees a reset.

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
    """At the end of what came. Libraries that could not send forget that error, and look for an answer."""
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
    """Before the first connection that leaves the box, so that other sockets are what they were."""
    kind, State.kind = State.kind, None
    for name, function in ("recv", recv), ("recv_into", recv_into), ("sendall", sendall):
        in_place_of(kind, name, function)


# ---- New sockets --------------------------------------------------------------------------------

def sought(family):
    """(host, port) where the socket that could not be made would have gone: the look-up before it
    says so, once for each address."""
    thread, host, port, families = State.sought
    if thread != get_ident() or family not in families:
        return "", None
    families.remove(family)
    return host, port


def explain_socket(exc, family, kind, proto):
    is_inet = family in (AF_INET, AF_INET6)
    if is_inet and kind in (SOCK_STREAM, SOCK_DGRAM) and proto in (0, TCP, UDP):
        if is_on():
            return          # it has no IPv6, then
        host, port = sought(family)
        say(exc, f"cannot connect to {target_of(host, port)}: {OFF}" if host else OFF)
        # Libraries try whether there is IPv6 when they are imported, which is not worth a line.
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
    """As socket.socket() calls it, which has put in what was left out."""
    try:
        plain_init(self, family, type, proto, fileno)
    except OSError as exc:
        if fileno is None and exc.errno in REFUSALS and family != AF_UNIX:
            if family == AF_INET and exc.errno == EAFNOSUPPORT:
                State.on = False        # no need to try one, which would be told of as well
            explain_socket(exc, int(family), int(type) & ~FLAGS, int(proto))
        raise


# ---- asyncio and the like ------------------------------------------------------------------------
# Its sockets do not wait, so the broker could not say what became of a connection. Its loop does.

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
    """What to raise; or True if the broker was asked and says nothing against it, None if not."""
    try:
        if kind_of(sock) != SOCK_STREAM or packed(family_of(sock), address[0]) is None:
            return None                 # a name: connect() will ask
        place = place_of(sock, address)
        if place is None or is_connected(sock) or place[2] and not is_brokers(place[1]):
            return None
        if State.kind is not None:
            explain_ends()
        return await ask_slowly(loop, f"connect {place[0]} {place[1]} wait") or True
    except Exception:                   # also that of wait_for(), whatever its class is
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


def reasons_of(cause):
    causes = getattr(cause, "exceptions", None) or [cause]
    texts = {str(exc): None for exc in causes[:REASONS_MAX] if isinstance(exc, OSError)}
    return "; ".join(texts)             # each once, in their order


def with_reasons(connect):
    """For a function that tries several addresses and then says that all of them failed."""
    async def connect_with_reasons(*args, **kwargs):
        try:
            return await connect(*args, **kwargs)
        except OSError as exc:
            reasons = reasons_of(exc.__cause__)
            if reasons and len(exc.args) == 1:
                exc.args = f"{exc}: {reasons}",
            raise
    return like(connect_with_reasons, connect)


# ---- Putting it in place ------------------------------------------------------------------------

def in_c(owner, name, function, old):
    """A function of ours that looks like one of C, of a module or a class."""
    doc = old.__doc__ or ""
    if Box.replacement is not None:
        signature = getattr(old, "__text_signature__", None)
        doc = f"{name}{signature}\n--\n\n{doc}" if signature else doc
        return Box.replacement(name, doc, function, owner)
    function.__name__, function.__doc__ = name, doc         # in tests, where there is no C
    return function


def in_place_of(owner, name, function):
    setattr(owner, name, in_c(owner, name, function, getattr(owner, name)))


def with_init(old):
    """socket.socket.__init__() itself, but that what it knows as `_socket.socket.__init__` is ours:
    so signature, line and frame are as ever."""
    kind = type(implementation)         # that of namespaces
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
    """The same for one of Python."""
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
        in_place_of(kind, name, function)
    in_place_of(_socket, "getaddrinfo", getaddrinfo)        # which socket.getaddrinfo() calls
    for name, function in ("gethostbyname", gethostbyname), ("gethostbyname_ex", gethostbyname_ex):
        in_place_of(_socket, name, function)
        setattr(module, name, getattr(_socket, name))       # it has them by name


def adopt_ssl(module):
    global plain_do_handshake
    if plain_do_handshake is None:
        plain_do_handshake = module.SSLSocket.do_handshake
        in_place_of(module.SSLSocket, "do_handshake", do_handshake)


def adopt_asyncio(module):
    global plain_sock_connect
    loop = module.BaseSelectorEventLoop
    if plain_sock_connect is None:
        plain_sock_connect = loop.sock_connect
        loop.sock_connect = like(sock_connect, plain_sock_connect)


def adopt_anyio(module):
    module.connect_tcp = with_reasons(module.connect_tcp)


def adopt_trio(module):
    module.open_tcp_stream = with_reasons(module.open_tcp_stream)


ADOPT = {
    "socket": adopt_socket, "ssl": adopt_ssl, "asyncio.selector_events": adopt_asyncio,
    "anyio._core._sockets": adopt_anyio, "trio._highlevel_open_tcp_stream": adopt_trio,
}
