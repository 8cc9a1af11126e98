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


setup(
    ext_modules=[
        Extension(
            "litemq.format._native",
            [
                f"src/litemq/format/{name}.c"
                for name in (
                    "_native",
                    "_native_shared",
                    "_native_records",
                    "_native_messages",
                    "_native_frames",
                    "_native_hot",
                )
            ],
            depends=["src/litemq/format/_native.h"],
            extra_compile_args=["-std=c11", "-O3"],
            py_limited_api=True,
            optional=True,
        ),
        Extension(
            "litemq.client._sending",
            ["src/litemq/client/_sending.c", "src/litemq/format/_native_shared.c"],
            depends=["src/litemq/format/_native.h"],
            extra_compile_args=["-std=c11", "-O3"],
            py_limited_api=True,
            optional=True,
        ),
        Extension(
            "litemq.client._receiving",
            [
                "src/litemq/client/_receiving.c",
                "src/litemq/format/_native_shared.c",
                "src/litemq/format/_native_records.c",
            ],
            depends=["src/litemq/format/_native.h"],
            extra_compile_args=["-std=c11", "-O3"],
            py_limited_api=True,
            optional=True,
        ),
        Extension(
            "litemq.storage.log._group_sync",
            ["src/litemq/storage/log/_group_sync.c"],
            extra_compile_args=["-std=c11", "-O2", "-pthread"],
            extra_link_args=["-pthread"],
            py_limited_api=True,
            optional=True,
        ),
    ],
    cmdclass={"bdist_wheel": Wheel},
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
)
