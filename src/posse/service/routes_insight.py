"""The API: what there is to see of an experiment."""

from fastapi import APIRouter

from posse.service.guarded import GuardedRoute, operation_id

router = APIRouter(prefix="/v1/experiments", route_class=GuardedRoute, generate_unique_id_function=operation_id)
