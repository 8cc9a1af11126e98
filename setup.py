"""The build of the optional C extension.

If the extension does not compile, the package is built without it and works the same, only slower.
A wheel with the extension is for one platform, a wheel without it for all.
"""

from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel


class Wheel(bdist_wheel):
    """A wheel whose name says whether the extension is in it."""

    def run(self) -> None:
        """Build the extension first: its success decides the platform of the wheel."""
        self.run_command("build_ext")
        outputs = self.get_finalized_command("build_ext").get_outputs()
        if not any(Path(output).is_file() for output in outputs):
            self.distribution.ext_modules = []
            self.root_is_pure = True
        super().run()


def extension(name: str, *sources: str, flags: tuple[str, ...] = ("-O3",), links: tuple[str, ...] = ()) -> Extension:
    """Describe an optional extension of the package, whose sources are relative to it."""
    return Extension(
        f"litemq.{name}",
        [f"src/litemq/{source}.c" for source in sources],
        depends=["src/litemq/format/_native.h"],
        extra_compile_args=["-std=c11", *flags],
        extra_link_args=list(links),
        py_limited_api=True,
        optional=True,
    )


SHARED = ("format/_native_shared", "format/_native_records")
LOOPS = ("format/_native", "format/_native_messages", "format/_native_frames", "format/_native_hot")

setup(
    ext_modules=[
        extension("format._native", *LOOPS, *SHARED),
        extension("client._sending", "client/_sending", "format/_native_shared"),
        extension("client._receiving", "client/_receiving", *SHARED),
        extension("storage.log._group_sync", "storage/log/_group_sync", flags=("-O2", "-pthread"), links=("-pthread",)),
    ],
    cmdclass={"bdist_wheel": Wheel},
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
)
