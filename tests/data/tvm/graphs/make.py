"""Write the graphs in `graphs/` as TVM saves them (needs `apache-tvm`)."""

import json
from pathlib import Path

import tvm
from tvm.script import tirx as T


@T.prim_func(s_tir=True)
def matmul(A: T.Buffer((16, 16), "float32"), B: T.Buffer((16, 16), "float32"), C: T.Buffer((16, 16), "float32")):
    for i, j, k in T.grid(16, 16, 16):
        with T.sblock("mm"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]


@T.prim_func(s_tir=True)
def quantized(A: T.Buffer((16,), "int32"), B: T.Buffer((16,), "int32")):
    for i in range(16):
        with T.sblock("b"):
            vi = T.axis.spatial(16, i)
            B[vi] = T.q_multiply_shift(A[vi], 1098990753, 31, 1)


@T.prim_func(s_tir=True)
def dynamic(a: T.handle, n: T.int32, B: T.Buffer((16,), "float32")):
    m = T.int32()
    A = T.match_buffer(a, (m * 2, m), "float32")
    for i in range(m):
        with T.sblock("b"):
            vi = T.axis.spatial(m, i)
            B[vi] = A[vi + m, 0] + T.Cast("float32", n)


def blockized():
    schedule = tvm.s_tir.Schedule(module(matmul))
    schedule.blockize(schedule.split(schedule.get_loops("mm")[2], [None, 4])[1])
    return schedule.mod


def module(function):
    return tvm.IRModule({"main": function.with_attr("global_symbol", "main")})


def save(name, mod):
    graph = json.loads(tvm.ir.save_json(mod))
    for node in graph["nodes"]:
        if node["type"] == "ir.SourceName":
            node["data"] = "make.py"
    (Path(__file__).parent / f"{name}.json").write_text(json.dumps(graph, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    save("block_in_init", blockized())
    save("q_multiply_shift", module(quantized))
    save("dynamic", module(dynamic))
