#!/bin/sh
# Java for the tests of Spark: found, or installed where nobody has to be asked.
#
# What is done goes to standard error. Nothing goes to standard output, unless there is no Java in the
# end: then the one line that says what is skipped, and the command that mends it.

OLDEST=17
PACKAGE=openjdk-17-jre-headless

version_of() { # the major version of a Java, nothing if it does not start
    "$1" -version 2>&1 | sed -n 's/.*version "\([0-9][0-9]*\).*/\1/p' | head -n 1
}

found() {
    if [ -n "$JAVA_HOME" ] && [ -x "$JAVA_HOME/bin/java" ]; then
        java=$JAVA_HOME/bin/java
    else
        java=$(command -v java) || return 1
    fi
    version=$(version_of "$java")
    [ "${version:-0}" -ge "$OLDEST" ]
}

found && exit 0

system=other
if command -v apt-get >/dev/null 2>&1; then
    system=debian
    mend="sudo apt-get install -y $PACKAGE"
elif command -v brew >/dev/null 2>&1; then
    mend="brew install openjdk@17"
else
    mend="install Java 17 (https://adoptium.net) and set JAVA_HOME"
fi

if [ "$system" = debian ]; then
    may= as=
    if [ "$(id -u)" = 0 ]; then
        may=yes
    elif command -v sudo >/dev/null 2>&1 && sudo -n true >/dev/null 2>&1; then
        may=yes as="sudo -n"
    fi
    if [ -n "$may" ]; then
        echo "installing Java 17 for the tests of Spark: $as apt-get install $PACKAGE" >&2
        export DEBIAN_FRONTEND=noninteractive
        $as apt-get install -y --no-install-recommends "$PACKAGE" </dev/null >/dev/null 2>&1 ||
            { $as apt-get update </dev/null >/dev/null 2>&1 &&
              $as apt-get install -y --no-install-recommends "$PACKAGE" </dev/null >/dev/null; } >&2
        found && exit 0
        echo "apt-get could not install Java 17; it says why above" >&2
    fi
fi

echo "The tests of Spark were skipped, because there is no Java 17. To run them too: $mend"
