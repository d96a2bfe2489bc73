"""Calls tollgate.admin.v1.Admin with nothing but its address and a token: python configure.py ADDRESS TOKEN."""

import sys


import grpc
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from google.rpc import error_details_pb2
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase
from grpc_status import rpc_status

ADDRESS, TOKEN = sys.argv[1:]
SERVICE = "tollgate.admin.v1.Admin"


class Bearer(grpc.StreamStreamClientInterceptor, grpc.UnaryUnaryClientInterceptor):
    """Sends the token with every call, those of reflection included."""

    def _with_token(self, call, details, request):
        with_token = details._replace(metadata=[("authorization", f"Bearer {TOKEN}")])
        return call(with_token, request)

    intercept_stream_stream = intercept_unary_unary = _with_token


plain = grpc.insecure_channel(ADDRESS)
channel = grpc.intercept_channel(plain, Bearer())
database = ProtoReflectionDescriptorDatabase(channel)
print(*sorted(database.get_services()))
methods = DescriptorPool(database).FindServiceByName(SERVICE).methods_by_name


def call(name, over=channel, **fields):
    method = methods[name]
    request, response = GetMessageClass(method.input_type), GetMessageClass(method.output_type)
    stub = over.unary_unary(
        f"/{SERVICE}/{name}",
        request_serializer=request.SerializeToString,
        response_deserializer=response.FromString,
    )
    return stub(request(**fields), timeout=60)


def refused(name, over=channel, **fields):
    try:
        call(name, over, **fields)
    except grpc.RpcError as error:
        return error
    raise AssertionError(f"{name} was not refused")


def detail(error, kind):
    for packed in rpc_status.from_call(error).details:
        found = kind()
        if packed.Unpack(found):
            return found
    raise AssertionError(f"no {kind.__name__} in {error}")


read = call("GetConfig")
print("read", read.file)
text = read.text.replace("id: acme", "id: ajax")
updated = call("UpdateConfig", text=text, expected_version=read.version)
tiers = [updated.tiers.client, updated.tiers.tenant]
print("updated", list(updated.warnings), *(f"{one.rate}/{one.window}" for one in tiers))
stale = refused("UpdateConfig", text=text, expected_version=read.version)
print(stale.code().name, stale.details())
bad = refused("UpdateConfig", text="tenants: 7\nplan: {}\n")
faults = detail(bad, error_details_pb2.BadRequest).field_violations
print(bad.code().name, len(faults), "faults at", faults[0].field)
fixed = refused("UpdateConfig", text="server: { listen: 127.0.0.1:1 }\n" + text)
violation = detail(fixed, error_details_pb2.PreconditionFailure).violations[0]
print(fixed.code().name, violation.type, violation.subject)
print(refused("GetConfig", plain).code().name)
try:
    ProtoReflectionDescriptorDatabase(plain).get_services()
except grpc.RpcError as error:
    print(error.code().name)
