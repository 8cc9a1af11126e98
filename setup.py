"""The part of the build that is not a setting: the loops in C, for which nobody needs a compiler.

Where they do not compile, the package is built without them and works the same, only slower. A wheel that has them is for one platform,
one that has not is for all.
"""

from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel


class Wheel(bdist_wheel):
    """A wheel whose name says whether the extension is in it."""

    def run(self) -> None:
        """Build the extension first: whether that succeeds decides where the rest of the wheel goes."""
        self.run_command("build_ext")
        outputs = self.get_finalized_command("build_ext").get_outputs()
        if not any(Path(output).is_file() for output in outputs):
            self.distribution.ext_modules = []
            self.root_is_pure = True
        super().run()


setup(
    ext_modules=[
        Extension(
            "litemq.format._native",
            [f"src/litemq/format/{name}.c" for name in ("_native", "_native_messages", "_native_frames")],
            depends=["src/litemq/format/_native.h"],
            extra_compile_args=["-std=c11", "-O3"],
            py_limited_api=True,
            optional=True,
        )
    ],
    cmdclass={"bdist_wheel": Wheel},
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
)
