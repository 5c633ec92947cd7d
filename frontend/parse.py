"""MLIR text that torch-mlir wrote, to an xDSL module that holds its own weights."""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialect_interfaces.op_asm import OpAsmDialectInterface
from xdsl.dialects.builtin import (
    BytesAttr,
    DenseIntOrFPElementsAttr,
    DenseResourceAttr,
    ModuleOp,
)
from xdsl.ir import Attribute, Operation
from xdsl.parser import Parser
from xdsl.utils.exceptions import ParseError, VerifyException

from ..dialects.torch import VTensorType
from ..errors import CompileError, reject


def parse_module(ctx: Context, text: str, name: str = "<input>") -> ModuleOp:
    """
    Parses `text`, custom or generic MLIR syntax, and verifies it.

    Weights that torch-mlir keeps in the resource section at the end of the file become
    inline bytes of the attribute that names them. `name` is the file for messages.

    Raises `CompileError` if the text does not parse or verify, if a resource has no data,
    and if a tensor has a dimension that is not known at compile time.
    """
    blobs = _blob_store(ctx)
    try:
        module = Parser(ctx, text, name).parse_module()
        module.verify()
    except (ParseError, VerifyException) as error:
        raise CompileError(str(error)) from error
    for op in module.walk():
        for attributes in (op.properties, op.attributes):
            for key, attribute in attributes.items():
                if isinstance(attribute, DenseResourceAttr):
                    attributes[key] = _inline(op, attribute, blobs)
        _check_static(op)
    return module


def _blob_store(ctx: Context) -> OpAsmDialectInterface:
    """
    The store that the parser puts resources in, emptied.

    It belongs to the one builtin dialect of the process, and a key that it has seen before
    is renamed in the metadata but not in the operation: the second module with the same key
    would lose its data. xDSL offers no other way to empty it.
    """
    store = ctx.get_dialect("builtin").get_interface(OpAsmDialectInterface)
    if store is None:
        raise CompileError("this xDSL does not read the resources of an MLIR file")
    store._blob_storage.clear()  # pyright: ignore[reportPrivateUsage]
    return store


def _inline(
    op: Operation, attribute: DenseResourceAttr, store: OpAsmDialectInterface
) -> DenseIntOrFPElementsAttr:
    key = attribute.resource_handle.data
    blob = store.lookup(key)
    if not blob:
        raise reject(
            op,
            f"dense_resource<{key}> has no data in this file; print the module with its "
            "resources, or with the weights inline",
        )
    # A blob is hex text: four bytes of alignment, then the elements, little endian.
    data = bytes.fromhex(blob.removeprefix("0x"))[4:]
    type = attribute.type
    expected = type.element_type.compile_time_size  # pyright: ignore
    for dimension in type.get_shape():
        expected *= dimension
    if len(data) != expected:
        raise reject(
            op, f"dense_resource<{key}> holds {len(data)} bytes, its type {type} needs {expected}"
        )
    return DenseIntOrFPElementsAttr(type, BytesAttr(data))  # pyright: ignore


def _check_static(op: Operation) -> None:
    types: list[Attribute] = list(op.result_types)
    for region in op.regions:
        for block in region.blocks:
            types.extend(arg.type for arg in block.args)
    for type in types:
        if isinstance(type, VTensorType) and not type.has_static_shape():
            raise reject(
                op,
                f"{type} has a dimension that is not known at compile time; "
                "import the function for one batch size",
            )
