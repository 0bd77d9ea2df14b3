"""Protobuf messages as protoc would make them of these two files:

// shop/money.proto: package shop; message Money { int64 cents = 1; }
// shop/order.proto: package shop; import "shop/money.proto";
// message Unused {}
// message Order {
//   message Ignored {}
//   message Line { string article = 1; map<string, int64> counts = 2; }
//   string id = 1; Money total = 2; repeated Line lines = 3;
// }
"""

from google.protobuf import descriptor_pool, message_factory
from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto
from google.protobuf.message import Message

_F = FieldDescriptorProto


def _field(
    name: str, number: int, kind: int, type_name: str | None = None, *, repeated: bool = False
) -> FieldDescriptorProto:
    label = _F.LABEL_REPEATED if repeated else _F.LABEL_OPTIONAL
    return _F(name=name, number=number, type=kind, label=label, type_name=type_name)  # type: ignore[arg-type]


_counts = DescriptorProto(
    name="CountsEntry",
    field=[_field("key", 1, _F.TYPE_STRING), _field("value", 2, _F.TYPE_INT64)],
    options={"map_entry": True},  # type: ignore[arg-type]
)
_line = DescriptorProto(
    name="Line",
    field=[
        _field("article", 1, _F.TYPE_STRING),
        _field("counts", 2, _F.TYPE_MESSAGE, ".shop.Order.Line.CountsEntry", repeated=True),
    ],
    nested_type=[_counts],
)
_order = DescriptorProto(
    name="Order",
    field=[
        _field("id", 1, _F.TYPE_STRING),
        _field("total", 2, _F.TYPE_MESSAGE, ".shop.Money"),
        _field("lines", 3, _F.TYPE_MESSAGE, ".shop.Order.Line", repeated=True),
    ],
    nested_type=[DescriptorProto(name="Ignored"), _line],
)
MONEY_FILE = FileDescriptorProto(
    name="shop/money.proto",
    package="shop",
    syntax="proto3",
    message_type=[DescriptorProto(name="Money", field=[_field("cents", 1, _F.TYPE_INT64)])],
)
ORDER_FILE = FileDescriptorProto(
    name="shop/order.proto",
    package="shop",
    syntax="proto3",
    dependency=["shop/money.proto"],
    message_type=[DescriptorProto(name="Unused"), _order],
)

_pool = descriptor_pool.DescriptorPool()
_pool.Add(MONEY_FILE)
_pool.Add(ORDER_FILE)


def _class(name: str) -> type[Message]:
    return message_factory.GetMessageClass(_pool.FindMessageTypeByName(name))


Money, Unused, Order, Line = map(_class, ("shop.Money", "shop.Unused", "shop.Order", "shop.Order.Line"))
