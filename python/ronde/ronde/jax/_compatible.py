"""What has another name in older versions of JAX."""

# mypy: ignore-errors

try:
    from jax.ffi import ffi_lowering, register_ffi_target
except ImportError:
    from jax.extend.ffi import ffi_lowering

    try:
        from jax.extend.ffi import register_ffi_target
    except ImportError:
        from jax.lib import xla_client

        def register_ffi_target(name, function, platform="cpu"):
            xla_client.register_custom_call_target(name, function, platform, api_version=1)


try:
    from jax.errors import JaxRuntimeError
except ImportError:
    from jaxlib.xla_extension import XlaRuntimeError as JaxRuntimeError

__all__ = ["JaxRuntimeError", "ffi_lowering", "register_ffi_target"]
