"""Caffe's Datum: the protobuf message that LMDB files of Caffe hold. Needs the package protobuf."""

from __future__ import annotations

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

FIELDS = ("channels", "height", "width", "data", "label", "float_data", "encoded")  # the message's fields, with the numbers 1 to 7
KINDS = {"data": "TYPE_BYTES", "float_data": "TYPE_FLOAT", "encoded": "TYPE_BOOL"}


def datum_class():
    kinds = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="datum.proto", package="caffe", syntax="proto2")
    message = file.message_type.add(name="Datum")
    for number, name in enumerate(FIELDS, 1):
        message.field.add(name=name, number=number, type=kinds.Type.Value(KINDS.get(name, "TYPE_INT32")),
                          label=kinds.LABEL_REPEATED if name == "float_data" else kinds.LABEL_OPTIONAL)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("caffe.Datum"))


Datum = datum_class()
