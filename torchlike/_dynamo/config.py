"""torch._dynamo.config. These have an effect: recompile_limit (cache_size_limit), fail_on_recompile_limit_hit,
error_on_recompile, disable."""

from torchlike.compiler._settings import DYNAMO, install
from torchlike.compiler._stance import update

_OLD = {
    "cache_size_limit": "recompile_limit",
    "accumulated_cache_size_limit": "accumulated_recompile_limit",
    "fail_on_cache_limit_hit": "fail_on_recompile_limit_hit",
}

install(__name__, DYNAMO, _OLD, update)
