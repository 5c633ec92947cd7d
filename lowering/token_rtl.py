"""
The `token-rtl` target: the timing of a design as synthesisable Verilog.

A module for each process, its schedule as a state machine, and one for each FIFO, of the declared
depth and the delays of its storage. Tokens carry no data: time does not depend on it. Simulated,
the design says in which cycle its last stage runs, or that it is stuck, and so it is a judge of
the analysis that shares no code with it.

```verilog
module tokens_siren(input clk, input rst, output done, output stuck, output [63:0] cycles);
```

The first cycle after `rst` is cycle 1. `done` stays high from the cycle after the last stage, and
`cycles` is then the cycle of that stage. `stuck` is high when no stage can run, none will become
able to by waiting, and some process has not finished: a deadlock.

A stage runs in the cycle in which its gap has passed, all tokens that it reads are readable and
there is room for all that it writes; both are registered, so nothing that happens in a cycle
is seen before the next. See `analysis.network` for the rules.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import IO

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.utils.target import Target

from ..analysis.network import Body, Fifo, Network, Process, Repeat, Segment
from ..errors import CompileError
from .cpp_names import Names

FIFO_MODULE = """\
// A FIFO of DEPTH tokens without data, or without a bound for DEPTH = 0. A token can be read RAW
// cycles after it is written; its place can be written in the cycle after it is read.
module inr_token_fifo #(
  parameter DEPTH = 2,
  parameter RAW = 1,
  parameter WIDTH = 2
) (
  input wire clk,
  input wire rst,
  input wire write,
  output wire writable,
  input wire read,
  output wire readable,
  output wire moving
);
  localparam [WIDTH-1:0] CAPACITY = DEPTH;
  reg [WIDTH-1:0] stored;
  reg [WIDTH-1:0] visible;
  wire arrives;
  assign writable = DEPTH == 0 || stored != CAPACITY;
  assign readable = visible != 0;
  generate
    if (RAW == 1) begin : direct
      assign arrives = write;
      assign moving = 1'b0;
    end else begin : delayed
      // Tokens on their way, the oldest in the highest bit.
      reg [RAW-2:0] flight;
      wire [RAW-1:0] shifted = {flight, write};
      assign arrives = flight[RAW-2];
      assign moving = flight != 0;
      always @(posedge clk) begin
        if (rst) flight <= 0;
        else flight <= shifted[RAW-2:0];
      end
    end
  endgenerate
  always @(posedge clk) begin
    if (rst) begin
      stored <= 0;
      visible <= 0;
    end else begin
      stored <= stored + {{(WIDTH-1){1'b0}}, write} - {{(WIDTH-1){1'b0}}, read};
      visible <= visible + {{(WIDTH-1){1'b0}}, arrives} - {{(WIDTH-1){1'b0}}, read};
    end
  end
endmodule
"""


def token_rtl(networks: Mapping[str, Network]) -> str:
    """
    Verilog of some networks, each a top module that is named after it (`module_names`), with the
    modules that it is made of.
    """
    names = module_names(networks)
    parts = [FIFO_MODULE]
    for name, network in zip(names, networks.values(), strict=True):
        parts += _Top(name, network).modules()
    return "\n".join(parts)


def module_names(names: Iterable[str]) -> list[str]:
    """The modules that `token_rtl` makes of networks of these names; none is a keyword."""
    taken = Names()
    return [taken.unique(f"tokens_{name}") for name in names]


def fifo_instances(network: Network) -> list[str]:
    """The instance of each FIFO in its module; its register `stored` counts the tokens."""
    taken = Names()
    return [f"fifo_{taken.unique(fifo.name)}" for fifo in network.fifos]


# A process: segments in a row, and what comes after each.


@dataclass
class _Schedule:
    """A body as a list of segments and the loops that close after them."""

    segments: list[Segment] = field(default_factory=list[Segment])
    closes: list[list[tuple[int, int]]] = field(default_factory=list[list[tuple[int, int]]])
    """For each segment, innermost first: the loops whose body it ends and where each begins."""
    times: list[int] = field(default_factory=list[int])
    """How often the body of each loop runs."""

    def append(self, body: Body) -> None:
        """Add the parts of a body."""
        for part in body:
            if isinstance(part, Segment):
                self.segments.append(part)
                self.closes.append([])
                continue
            loop, first = len(self.times), len(self.segments)
            self.times.append(part.times)
            self.append(part.body)
            self.closes[-1].append((loop, first))


def _ports(process: Process) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The FIFOs that a process reads and writes, in the order of its ports."""
    return tuple(sorted(process.reads)), tuple(sorted(process.writes))


def _renumbered(body: Body, ports: Sequence[int]) -> Body:
    """A body with ports in place of FIFOs: equal for processes that one module can serve."""
    return tuple(
        replace(
            part,
            reads=tuple(sorted(ports.index(f) for f in part.reads)),
            writes=tuple(sorted(ports.index(f) for f in part.writes)),
        )
        if isinstance(part, Segment)
        else Repeat(part.times, _renumbered(part.body, ports))
        for part in body
    )


def _bits(largest: int) -> int:
    """The width of a register for 0 to `largest`."""
    return max(1, largest.bit_length())


def _constant(value: int, width: int) -> str:
    return f"{width}'d{value}"


def _range(width: int) -> str:
    return f"[{width - 1}:0]"


@dataclass
class _ProcessModule:
    """The text of a process's module."""

    name: str
    body: Body
    """With ports in place of FIFOs: those that are read come first."""
    start: int
    reads: int
    """The number of FIFOs that it reads."""
    writes: int
    schedule: _Schedule = field(default_factory=_Schedule)

    def __post_init__(self) -> None:
        self.schedule.append(self.body)
        segments = self.schedule.segments
        gaps = [g - 1 for s in segments for g in (s.first_gap, s.gap)]
        self.state_bits = _bits(len(segments))
        self.left_bits = _bits(max(s.count for s in segments) - 1)
        self.timer_bits = _bits(max([*gaps, self.start + segments[0].first_gap - 1]))
        self.loop_bits = [_bits(times - 1) for times in self.schedule.times]

    def text(self) -> str:
        """The whole module."""
        ports = ["input wire clk", "input wire rst"]
        if self.reads:
            ports.append(f"input wire {_range(self.reads)} readable")
            ports.append(f"output wire {_range(self.reads)} read")
        if self.writes:
            ports.append(f"input wire {_range(self.writes)} writable")
            ports.append(f"output wire {_range(self.writes)} write")
        ports += ["output wire fires", "output wire waits", "output wire done"]
        return "\n".join(
            [
                *self._comment(),
                f"module {self.name} (",
                ",\n".join(f"  {port}" for port in ports),
                ");",
                *self._registers(),
                *self._stage(),
                "  always @(posedge clk) begin",
                "    if (rst) begin",
                *self._indent(self._enter(0, start=self.start), 6),
                *(f"      loop_{loop} <= 0;" for loop in range(len(self.loop_bits))),
                "    end else if (timer != 0) begin",
                "      timer <= timer - 1;",
                "    end else if (fires) begin",
                *self._indent(self._advance(), 6),
                "    end",
                "  end",
                "endmodule",
                "",
            ]
        )

    def _comment(self) -> Iterator[str]:
        for state, segment in enumerate(self.schedule.segments):
            io = [f"reads {list(segment.reads)}"] if segment.reads else []
            written = [port - self.reads for port in segment.writes]
            io += [f"writes {written}"] if written else []
            loops = [f"{self.schedule.times[n]} times from {f}" for n, f in self._closes(state)]
            count = f"{segment.count} stage{'s' * (segment.count > 1)}"
            gaps = f"gaps {segment.first_gap} and {segment.gap}"
            yield f"// {state}: {', '.join([count, gaps, *io, *loops])}"

    def _closes(self, state: int) -> list[tuple[int, int]]:
        return self.schedule.closes[state]

    def _registers(self) -> Iterator[str]:
        yield f"  localparam {_range(self.state_bits)} END = {len(self.schedule.segments)};"
        yield f"  reg {_range(self.state_bits)} state;"
        yield f"  reg {_range(self.left_bits)} left;"
        yield f"  reg {_range(self.timer_bits)} timer;"
        for loop, width in enumerate(self.loop_bits):
            yield f"  reg {_range(width)} loop_{loop};"

    def _stage(self) -> Iterator[str]:
        """What a stage needs, and what it does."""
        yield "  reg ready;"
        yield "  always @(*) begin"
        yield "    case (state)"
        for state, segment in enumerate(self.schedule.segments):
            needs = [f"readable[{f}]" for f in segment.reads]
            needs += [f"writable[{f - self.reads}]" for f in segment.writes]
            yield f"      {self._state(state)}: ready = {' & '.join(needs) or '1'};"
        yield "      default: ready = 0;"
        yield "    endcase"
        yield "  end"
        yield "  assign fires = ready && timer == 0;"
        yield "  assign waits = timer != 0;"
        yield "  assign done = state == END;"
        for port in range(self.reads + self.writes):
            states = [
                f"state == {self._state(n)}"
                for n, s in enumerate(self.schedule.segments)
                if port in (*s.reads, *s.writes)
            ]
            written = port - self.reads
            name = f"read[{port}]" if written < 0 else f"write[{written}]"
            yield f"  assign {name} = fires && ({' || '.join(states)});"

    def _state(self, state: int) -> str:
        return _constant(state, self.state_bits)

    def _advance(self) -> Iterator[str]:
        """What follows a stage: another of its segment, another run of a loop, what is next."""
        yield "case (state)"
        for state, segment in enumerate(self.schedule.segments):
            yield f"  {self._state(state)}: begin"
            if segment.count > 1:
                yield "    if (left != 0) begin"
                yield "      left <= left - 1;"
                yield f"      timer <= {_constant(segment.gap - 1, self.timer_bits)};"
                yield "    end else begin"
                yield from self._indent(self._leave(state, self._closes(state)), 6)
                yield "    end"
            else:
                yield from self._indent(self._leave(state, self._closes(state)), 4)
            yield "  end"
        yield "  default: ;"
        yield "endcase"

    def _leave(self, state: int, closes: Sequence[tuple[int, int]]) -> Iterator[str]:
        """After the last stage of a segment: round the innermost loop, or out of it."""
        if not closes:
            yield from self._enter(state + 1)
            return
        (loop, first), *outer = closes
        last = _constant(self.schedule.times[loop] - 1, self.loop_bits[loop])
        yield f"if (loop_{loop} != {last}) begin"
        yield f"  loop_{loop} <= loop_{loop} + 1;"
        yield from self._indent(self._enter(first), 2)
        yield "end else begin"
        yield f"  loop_{loop} <= 0;"
        yield from self._indent(self._leave(state, outer), 2)
        yield "end"

    def _enter(self, state: int, start: int = 0) -> Iterator[str]:
        yield f"state <= {self._state(state)};"
        if state == len(self.schedule.segments):
            return
        segment = self.schedule.segments[state]
        yield f"left <= {_constant(segment.count - 1, self.left_bits)};"
        yield f"timer <= {_constant(start + segment.first_gap - 1, self.timer_bits)};"

    @staticmethod
    def _indent(lines: Iterable[str], by: int) -> list[str]:
        return [" " * by + line for line in lines]


# A network.


@dataclass
class _Top:
    """The modules of one network."""

    name: str
    network: Network
    served: dict[tuple[Body, int, int, int], _ProcessModule] = field(
        default_factory=dict[tuple[Body, int, int, int], _ProcessModule]
    )
    """Modules by what distinguishes them; processes with equal schedules share one."""
    module_names: Names = field(default_factory=Names)
    instance_names: Names = field(default_factory=Names)

    def modules(self) -> list[str]:
        """The text of each module, the top module last."""
        instances = [
            line
            for process in self.network.processes
            if process.body
            for line in self._call(process)
        ]
        return [*(m.text() for m in self.served.values()), self._top(instances)]

    def _call(self, process: Process) -> Iterator[str]:
        reads, writes = _ports(process)
        body = _renumbered(process.body, reads + writes)
        key = (body, process.start, len(reads), len(writes))
        if (module := self.served.get(key)) is None:
            unique = self.module_names.unique(process.name)
            module = _ProcessModule(f"{self.name}_{unique}", *key)
            self.served[key] = module
        instance = self.instance_names.unique(process.name)
        fifos = fifo_instances(self.network)
        ports = [".clk(clk)", ".rst(rst)"]
        for signals, ends in ((("readable", "read"), reads), (("writable", "write"), writes)):
            for signal in signals if ends else ():
                wires = ", ".join(f"{fifos[f]}_{signal}" for f in reversed(ends))
                ports.append(f".{signal}({{{wires}}})")
        ports += [f".{flag}({flag}_{instance})" for flag in ("fires", "waits", "done")]
        yield f"  wire fires_{instance}, waits_{instance}, done_{instance};"
        yield f"  {module.name} process_{instance} ("
        yield ",\n".join(f"    {port}" for port in ports)
        yield "  );"

    def _top(self, instances: Sequence[str]) -> str:
        names = Names()
        running = [names.unique(p.name) for p in self.network.processes if p.body]
        fifos = fifo_instances(self.network)
        lines = [
            f"module {self.name} (",
            "  input wire clk,",
            "  input wire rst,",
            "  output wire done,",
            "  output wire stuck,",
            "  output reg [63:0] cycles",
            ");",
        ]
        for name, fifo, tokens in zip(fifos, self.network.fifos, self.network.tokens, strict=True):
            lines += _fifo(name, fifo, int(tokens))
        lines += instances
        any_moving = [f"{name}_moving" for name in fifos] + [f"waits_{name}" for name in running]
        lines += [
            f"  assign done = {_all(f'done_{name}' for name in running)};",
            f"  wire fires = {_any(f'fires_{name}' for name in running)};",
            f"  wire moving = {_any(any_moving)};",
            "  assign stuck = !done && !fires && !moving;",
            "  reg [63:0] cycle;",
            "  always @(posedge clk) begin",
            "    if (rst) begin",
            "      cycle <= 1;",
            "      cycles <= 0;",
            "    end else begin",
            "      cycle <= cycle + 1;",
            "      if (fires) cycles <= cycle;",
            "    end",
            "  end",
            "endmodule",
            "",
        ]
        return "\n".join(lines)


def _fifo(name: str, fifo: Fifo, tokens: int) -> Iterator[str]:
    depth = fifo.depth or 0
    # Two bits at least, so that one token can be extended to the width of the counters.
    width = max(2, _bits(depth or tokens))
    bound = f"depth {fifo.depth}" if fifo.depth is not None else "no bound"
    yield f"  // {fifo.name}: {tokens} tokens of {fifo.width} bits, {bound}, {fifo.storage_kind}"
    signals = ("write", "writable", "read", "readable", "moving")
    yield f"  wire {', '.join(f'{name}_{signal}' for signal in signals)};"
    yield f"  inr_token_fifo #(.DEPTH({depth}), .RAW({fifo.raw}), .WIDTH({width})) {name} ("
    yield "    .clk(clk), .rst(rst),"
    yield ",\n".join(f"    .{signal}({name}_{signal})" for signal in signals)
    yield "  );"


def _all(signals: Iterable[str]) -> str:
    return " && ".join(signals) or "1'b1"


def _any(signals: Iterable[str]) -> str:
    return " || ".join(signals) or "1'b0"


class TokenRtlTarget(Target):
    """Each function of the linear stage as a Verilog module: `tokens_main` for `main`."""

    name = "token-rtl"

    def emit(self, ctx: Context, module: ModuleOp, output: IO[str]) -> None:
        from ..analysis.schedules import network_of

        functions = [op for op in module.ops if isinstance(op, FuncOp)]
        if not functions:
            raise CompileError("token-rtl: there is no function")
        networks = {f.sym_name.data: network_of(f)[0] for f in functions}
        output.write(token_rtl(networks))
