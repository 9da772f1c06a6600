#!/usr/bin/env bash
# The site of main and of every release side by side: tools/versioned_docs.sh FOLDER
# Each knows the others (SFUMATO_VERSIONS); the front page is that of the newest release.
set -euo pipefail
folder=$1
releases=$(git tag --list 'v*' --sort=-version:refname | sed 's/^v//')
SFUMATO_VERSIONS="main $(echo $releases)"
export SFUMATO_VERSIONS
mkdir -p "$folder" build
for release in $releases; do
  git worktree add --detach "build/docs-$release" "v$release"
  if make -C "build/docs-$release" docs; then
    cp -r "build/docs-$release/docs/_build/html" "$folder/$release"
  else
    echo "The site of $release cannot be built any more."
  fi
  git worktree remove --force "build/docs-$release"
done
make docs
cp -r docs/_build/html "$folder/main"
newest=$(ls "$folder" | grep -v '^main$' | sort --version-sort | tail -n 1 || true)
echo "<meta http-equiv=\"refresh\" content=\"0; url=${newest:-main}/index.html\">" >"$folder/index.html"
