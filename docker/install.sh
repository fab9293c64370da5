#!/bin/sh
# Fills /opt/tidegate, an environment of its own: `install.sh LOCK` puts in what a lock names, `install.sh` the wheels and the bill of
# materials, and leaves out what nothing needs at run time: installers, headers, static libraries, the packages' own tests.
set -eu
pip="/opt/tidegate/bin/python -m pip --disable-pip-version-check install --quiet --no-cache-dir --no-compile --no-deps"
if [ $# -gt 0 ]; then
    python3 -m venv /opt/tidegate
    exec $pip --only-binary :all: --require-hashes --requirement "$1"
fi
[ ! -d /build/wheels ] || $pip /build/wheels/*.whl
/opt/tidegate/bin/python /build/sbom.py /opt/tidegate/sbom.cdx.json
packages=$(/opt/tidegate/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
rm -rf "$packages"/pip "$packages"/pip-*.dist-info "$packages"/setuptools "$packages"/setuptools-*.dist-info /opt/tidegate/bin/pip*
find "$packages" -type d -name tests -prune -exec rm -rf {} +
rm -rf "$packages"/pyarrow/include "$packages"/pyarrow/src
find "$packages" -name '*.a' -delete
# What every start imports comes with its bytecode, which is never checked against sources that never change; the bytecode of
# the rest would make the image a tenth larger.
for package in cryptography fsspec google grpc numpy pyarrow rich tidegate_native tidegate_operators tidegate_pipelines \
    tidegate_serving tidegate_validation typer; do
    [ ! -d "$packages/$package" ] ||
        /opt/tidegate/bin/python -m compileall -q --invalidation-mode unchecked-hash "$packages/$package"
done
