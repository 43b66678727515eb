"""Which backend a simulation runs on, and whether it is there."""

import importlib.util

import numba

BACKENDS = ("cpu", "cuda", "auto")


def check_backend(backend: str) -> str:
    """The backend to use: "cpu" or "cuda". "auto" means cuda if a GPU is usable; "cuda" without one is an error."""
    if backend not in BACKENDS:
        raise ValueError(f"backend={backend!r}, but expected one of {', '.join(map(repr, BACKENDS))}")
    if backend == "cpu":
        return "cpu"
    missing = what_cuda_misses()
    if missing and backend == "cuda":
        raise RuntimeError(f'backend="cuda", but {missing}; backend="auto" takes the CPU where there is no GPU')
    return "cpu" if missing else "cuda"


def what_cuda_misses() -> str:
    """Why a GPU cannot be used, or nothing if it can."""
    if importlib.util.find_spec("numba_cuda") is None:
        return "numba-cuda is not installed: pip install 'posse-bandits[cuda]'"
    from numba import cuda

    if numba.config.ENABLE_CUDASIM:
        return ""
    if not cuda.is_available():
        return f"no NVIDIA GPU can be used ({_line(cuda.cuda_error()) or 'none found'})"
    from numba.cuda.cudadrv import nvvm

    try:
        nvvm.NVVM()
    except Exception as error:  # whatever keeps the compiler from being loaded
        return (
            f"the CUDA toolkit is not found ({_line(error)}): pip install 'numba-cuda[cu13]', or cu12 for older drivers"
        )
    return ""


def _line(error: object) -> str:
    return " ".join(str(error or "").split())
