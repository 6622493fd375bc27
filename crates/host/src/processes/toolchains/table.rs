//! The table of toolchains: their directories, the variables that move them, and the credentials in them.
//!
//! A row is one kind of directory. Configuration is in the table only where tools do not work without it; a tool whose
//! configuration is mostly credentials (docker, gh, helm, aws) has no row at all.

/// Directories of a toolchain that are treated alike.
#[derive(Debug, Clone, Copy)]
pub(super) struct ToolchainRow {
    pub(super) name: &'static str,
    /// Variables that name such a directory, with a path below the value after a slash: `GOPATH/pkg`.
    pub(super) variables: &'static [&'static str],
    /// Default directories: relative to the home directory, or absolute. A `*` stands for the rest of a name.
    pub(super) defaults: &'static [&'static str],
    /// Credentials in them. They may be directories and may have a `*`.
    pub(super) credentials: &'static [&'static str],
    /// Files in them that are masked if they hold a credential. For a directory, the files in it.
    pub(super) suspects: &'static [&'static str],
    /// True if programs write into them: a cache, or a directory for installed packages.
    pub(super) is_writable: bool,
}

/// Variables whose value is a list of directories.
pub(super) const LIST_VARIABLES: &[&str] =
    &["GEM_PATH", "GOPATH", "JULIA_DEPOT_PATH", "PERL_LOCAL_LIB_ROOT", "R_LIBS_USER"];

/// Base directories, with the variables that move them. Moved content is shown at the default path.
pub(super) const BASE_VARIABLES: &[(&str, &str)] = &[
    (".cache", "XDG_CACHE_HOME"),
    (".config", "XDG_CONFIG_HOME"),
    (".local/share", "XDG_DATA_HOME"),
    (".local/state", "XDG_STATE_HOME"),
];

/// All toolchains.
#[rustfmt::skip]
pub(super) const TABLE: &[ToolchainRow] = &[
    // Rust
    row("cargo", &["CARGO_HOME"], &[".cargo"]).hides(&["credentials", "credentials.toml"]).checks(&["config", "config.toml"]),
    row("cargo", &["CARGO_INSTALL_ROOT"], &[]),
    row("rustup", &["RUSTUP_HOME", "RUSTUP_TOOLCHAIN"], &[".rustup"]),
    row("sccache", &["SCCACHE_DIR"], &[".cache/sccache"]),
    // JavaScript
    row("npm", &["npm_config_cache", "NPM_CONFIG_CACHE"], &[".npm"]),
    row("npm", &["npm_config_prefix", "NPM_CONFIG_PREFIX", "N_PREFIX"], &[".npm-global", ".npm-packages", "n"]).hides(&["etc/npmrc"]),
    row("nvm", &["NVM_DIR"], &[".nvm", ".config/nvm"]).hides(&["versions/node/*/etc/npmrc"]),
    row("fnm", &["FNM_DIR", "FNM_MULTISHELL_PATH"], &[".fnm", ".local/share/fnm", ".local/state/fnm_multishells"]).hides(&["node-versions/*/installation/etc/npmrc"]),
    row("volta", &["VOLTA_HOME"], &[".volta"]).hides(&["tools/image/node/*/etc/npmrc"]).checks(&["hooks.json"]),
    row("nodenv", &["NODENV_ROOT"], &[".nodenv"]).hides(&["versions/*/etc/npmrc"]),
    row("corepack", &["COREPACK_HOME"], &[".cache/node"]),
    row("node-gyp", &[], &[".cache/node-gyp"]),
    row("pnpm", &["PNPM_HOME", "npm_config_store_dir"], &[".local/share/pnpm", ".pnpm-store", ".cache/pnpm", ".local/state/pnpm"]).hides(&["nodejs/*/etc/npmrc"]),
    row("pnpm", &[], &[".config/pnpm"]).hides(&["auth.ini"]).checks(&["rc", "config.yaml"]),
    row("yarn", &["YARN_CACHE_FOLDER", "YARN_GLOBAL_FOLDER"], &[".yarn", ".cache/yarn", ".config/yarn"]).checks(&[".yarnrc.yml"]),
    row("bun", &["BUN_INSTALL", "BUN_INSTALL_CACHE_DIR"], &[".bun"]).checks(&[".bunfig.toml", "bunfig.toml"]),
    row("deno", &["DENO_DIR", "DENO_INSTALL", "DENO_INSTALL_ROOT"], &[".deno", ".cache/deno"]).hides(&["deno_history.txt"]),
    row("playwright", &["PLAYWRIGHT_BROWSERS_PATH"], &[".cache/ms-playwright"]),
    row("puppeteer", &["PUPPETEER_CACHE_DIR"], &[".cache/puppeteer"]),
    row("cypress", &["CYPRESS_CACHE_FOLDER"], &[".cache/Cypress"]),
    row("electron", &["ELECTRON_CACHE"], &[".cache/electron", ".cache/electron-builder"]),
    // Python
    row("pyenv", &["PYENV_ROOT", "PYENV_VERSION"], &[".pyenv"]),
    row("uv", &["UV_PYTHON_INSTALL_DIR", "UV_TOOL_DIR", "UV_TOOL_BIN_DIR"], &[".local/share/uv"]).hides(&["credentials"]),
    row("uv", &["UV_CACHE_DIR"], &[".cache/uv"]),
    row("uv", &[], &[".config/uv"]).checks(&["uv.toml"]),
    row("pip", &["PIP_CACHE_DIR"], &[".cache/pip"]),
    row("pip", &[], &[".config/pip", ".pip"]).checks(&["pip.conf"]),
    row("pipx", &["PIPX_HOME", "PIPX_BIN_DIR"], &[".local/share/pipx", ".local/pipx"]),
    row("poetry", &["POETRY_HOME", "POETRY_CACHE_DIR"], &[".local/share/pypoetry", ".cache/pypoetry", ".poetry"]),
    row("poetry", &["POETRY_CONFIG_DIR"], &[".config/pypoetry"]).hides(&["auth.toml"]).checks(&["config.toml"]),
    row("pdm", &["PDM_CACHE_DIR"], &[".local/share/pdm", ".cache/pdm"]),
    row("hatch", &["HATCH_DATA_DIR", "HATCH_CACHE_DIR"], &[".local/share/hatch", ".cache/hatch"]),
    row("rye", &["RYE_HOME"], &[".rye"]).hides(&["credentials"]).checks(&["config.toml"]),
    row("conda", &["CONDA_PREFIX", "CONDA_ROOT", "MAMBA_ROOT_PREFIX"], &["miniconda3", "anaconda3", "miniforge3", "mambaforge", "micromamba", ".local/share/mamba", ".conda"]).checks(&[".condarc", "condarc", "condarc.d", ".mambarc"]),
    row("pixi", &["PIXI_HOME", "PIXI_CACHE_DIR", "RATTLER_CACHE_DIR"], &[".pixi", ".cache/rattler"]).hides(&["credentials.json"]).checks(&["config.toml"]),
    row("virtualenv", &["WORKON_HOME", "VIRTUAL_ENV", "PIPENV_CACHE_DIR"], &[".virtualenvs", ".local/share/virtualenvs", ".local/share/virtualenv", ".cache/pipenv"]).checks(&["pip.conf", "*/pip.conf"]),
    row("python", &["PYTHONUSERBASE/bin", "PYTHONUSERBASE/lib"], &[".local/lib/python*"]),
    row("pre-commit", &["PRE_COMMIT_HOME"], &[".cache/pre-commit"]),
    row("torch", &["TORCH_HOME"], &[".cache/torch"]),
    row("huggingface", &["HF_HOME"], &[".cache/huggingface"]).hides(&["token", "stored_tokens"]),
    // Go
    row("go", &["GOROOT"], &["sdk/go1*"]).read_only(),
    row("go", &["GOPATH/pkg", "GOPATH/bin", "GOMODCACHE", "GOBIN"], &["go/pkg", "go/bin"]),
    row("go", &["GOCACHE", "GOLANGCI_LINT_CACHE", "STATICCHECK_CACHE"], &[".cache/go-build", ".cache/golangci-lint", ".cache/staticcheck", ".cache/gopls"]),
    row("go", &[], &[".config/go"]).checks(&["env"]),
    row("go versions", &["GVM_ROOT", "GOENV_ROOT"], &[".gvm", ".goenv"]),
    // Java and its relatives
    row("java", &["JAVA_HOME", "JDK_HOME", "GRAALVM_HOME"], &[".jdks"]).read_only(),
    row("maven", &[], &[".m2"]).hides(&["settings-security.xml", "settings-security4.xml"]).checks(&["settings.xml"]),
    row("maven", &["MAVEN_HOME", "M2_HOME"], &[]).checks(&["conf/settings.xml"]).read_only(),
    row("gradle", &["GRADLE_USER_HOME"], &[".gradle"]).hides(&["enterprise", "develocity"]).checks(&["gradle.properties", "init.gradle", "init.gradle.kts", "init.d"]),
    row("gradle", &["GRADLE_HOME"], &[]).checks(&["gradle.properties", "init.d"]).read_only(),
    row("sdkman", &["SDKMAN_DIR"], &[".sdkman"]),
    row("java versions", &["JENV_ROOT", "JABBA_HOME"], &[".jenv", ".jabba"]),
    row("coursier", &["COURSIER_CACHE"], &[".cache/coursier", ".local/share/coursier"]),
    row("sbt", &[], &[".sbt"]).hides(&[".credentials*", "credentials*", "gpg"]).checks(&["repositories", "0.13", "1.0", "0.13/plugins", "1.0/plugins"]),
    row("ivy", &[], &[".ivy2"]).hides(&[".credentials*", "credentials*"]).checks(&["ivysettings.xml"]),
    row("leiningen", &["LEIN_HOME"], &[".lein"]).hides(&["credentials.clj", "credentials.clj.gpg"]).checks(&["profiles.clj", "profiles.d"]),
    row("kotlin", &["KONAN_DATA_DIR"], &[".konan"]),
    row("android", &["ANDROID_HOME", "ANDROID_SDK_ROOT"], &["Android/Sdk"]),
    // Ruby
    row("gem", &["GEM_HOME", "GEM_PATH"], &[".gem", ".local/share/gem", ".cache/gem"]).hides(&["credentials"]),
    // A host is the key of a credential there, so no word tells them from settings.
    row("bundler", &["BUNDLE_USER_HOME"], &[".bundle"]).hides(&["config"]),
    row("rbenv", &["RBENV_ROOT", "RBENV_VERSION"], &[".rbenv"]),
    row("rvm", &["rvm_path"], &[".rvm"]),
    row("rubies", &[], &[".rubies"]).read_only(),
    // PHP
    row("composer", &["COMPOSER_HOME", "COMPOSER_CACHE_DIR"], &[".composer", ".config/composer", ".local/share/composer", ".cache/composer"]).hides(&["auth.json"]).checks(&["config.json"]),
    row("phpenv", &["PHPENV_ROOT"], &[".phpenv"]),
    // .NET; `corefx` holds private keys of certificates
    row("dotnet", &["DOTNET_ROOT", "DOTNET_CLI_HOME/.dotnet"], &[".dotnet"]).hides(&["corefx"]),
    row("nuget", &["NUGET_PACKAGES", "NUGET_HTTP_CACHE_PATH"], &[".nuget", ".local/share/NuGet"]).checks(&["NuGet/NuGet.Config", "NuGet/nuget.config", "NuGet/config"]),
    row("nuget", &[], &[".config/NuGet"]).checks(&["NuGet.Config", "nuget.config", "config"]),
    // Functional languages
    row("ghcup", &["GHCUP_INSTALL_BASE_PREFIX/.ghcup"], &[".ghcup"]),
    row("cabal", &["CABAL_DIR"], &[".cabal", ".config/cabal", ".cache/cabal", ".local/state/cabal"]).checks(&["config"]),
    row("stack", &["STACK_ROOT"], &[".stack", ".local/share/stack"]).hides(&["upload"]).checks(&["config.yaml"]),
    row("opam", &["OPAMROOT"], &[".opam"]).hides(&["plugins/opam-publish"]).checks(&["repo/repos-config"]),
    row("elixir", &["MIX_HOME"], &[".mix"]),
    row("hex", &["HEX_HOME"], &[".hex", ".cache/rebar3"]).hides(&["hex.config", "hex.config.*"]),
    row("gleam", &[], &[".cache/gleam"]).hides(&["hex/*/credentials", "hex/credentials"]),
    row("elm", &["ELM_HOME"], &[".elm"]),
    row("lean", &["ELAN_HOME"], &[".elan", ".cache/mathlib"]),
    // Other languages
    row("swift", &["SWIFTLY_HOME_DIR", "SWIFTLY_BIN_DIR", "SWIFTLY_TOOLCHAINS_DIR"], &[".local/share/swiftly", ".swiftly", ".cache/org.swift.swiftpm", ".cache/clang"]),
    row("swift", &[], &[".swiftpm"]).checks(&["configuration"]),
    row("dart", &["PUB_CACHE"], &[".pub-cache"]).hides(&["credentials.json", "pub-credentials.json", "pub-tokens.json"]),
    row("flutter", &["FLUTTER_ROOT", "FLUTTER_HOME", "FVM_CACHE_PATH"], &["flutter", "fvm"]),
    row("zig", &["ZIG_GLOBAL_CACHE_DIR"], &[".cache/zig", ".cache/zls", ".zvm"]),
    row("julia", &["JULIA_DEPOT_PATH"], &[".julia"]).hides(&["servers", "logs/repl_history.jl"]).checks(&["config"]),
    row("r", &["R_LIBS_USER"], &["R/*-library", ".cache/R"]),
    row("lua", &[], &[".luarocks"]).hides(&["upload_config.lua"]),
    row("perl", &["PERL_LOCAL_LIB_ROOT", "PERLBREW_ROOT", "PERL_CPANM_HOME"], &["perl5", ".cpanm", ".plenv"]),
    row("nim", &["NIMBLE_DIR"], &[".nimble", ".choosenim", ".cache/nim"]).hides(&["github_api_token"]),
    row("crystal", &["CRYSTAL_CACHE_DIR", "SHARDS_CACHE_PATH"], &[".cache/crystal", ".cache/shards"]),
    row("wasmer", &["WASMER_DIR"], &[".wasmer"]).hides(&["wasmer.toml"]),
    row("emscripten", &["EMSDK", "EM_CACHE"], &[".emscripten_cache"]),
    row("foundry", &["FOUNDRY_DIR"], &[".foundry", ".svm", ".local/share/svm"]).hides(&["keystores"]),
    // Builds of C and C++
    row("ccache", &["CCACHE_DIR"], &[".ccache", ".cache/ccache", ".config/ccache"]).checks(&["ccache.conf"]),
    row("bazel", &["BAZELISK_HOME"], &[".cache/bazel", ".cache/bazelisk"]),
    row("vcpkg", &["VCPKG_ROOT", "VCPKG_DEFAULT_BINARY_CACHE", "VCPKG_DOWNLOADS"], &[".cache/vcpkg"]),
    row("conan", &["CONAN_HOME"], &[".conan2"]).hides(&[".conan.db", "credentials.json"]).checks(&["remotes.json", "global.conf"]),
    row("conan", &["CONAN_USER_HOME/.conan"], &[".conan"]).hides(&[".conan.db"]).checks(&["remotes.json", "conan.conf"]),
    row("platformio", &["PLATFORMIO_CORE_DIR"], &[".platformio"]).hides(&["appstate.json", "homestate.json"]),
    row("terraform", &["TF_PLUGIN_CACHE_DIR"], &[".terraform.d/plugin-cache"]),
    // Managers of versions and packages
    row("asdf", &["ASDF_DATA_DIR", "ASDF_DIR"], &[".asdf"]).hides(&["installs/nodejs/*/etc/npmrc"]),
    row("mise", &["MISE_DATA_DIR", "MISE_CACHE_DIR", "MISE_STATE_DIR"], &[".local/share/mise", ".cache/mise", ".local/state/mise"]).hides(&["installs/node/*/etc/npmrc"]),
    row("mise", &["MISE_CONFIG_DIR"], &[".config/mise"]).hides(&["github_tokens.toml", "age.txt"]).checks(&["config.toml", "config.*", "conf.d"]),
    row("proto", &["PROTO_HOME"], &[".proto"]),
    row("aqua", &["AQUA_ROOT_DIR"], &[".local/share/aquaproj-aqua"]),
    row("nix", &[], &[".nix-profile", ".local/state/nix", "/nix/store", "/nix/var/nix/profiles"]).read_only(),
    row("guix", &["GUIX_PROFILE"], &[".guix-profile", "/gnu/store"]).read_only(),
    // Programs do not see the data of services. The path is the same on every machine. It is in two pieces because it looks like a person's
    // home directory.
    row("homebrew", &["HOMEBREW_PREFIX", "HOMEBREW_CACHE"], &[concat!("/home", "/linuxbrew/.linuxbrew"), ".linuxbrew", ".cache/Homebrew"]).hides(&["var/db", "var/mongodb", "var/mysql", "var/postgres*"]),
    row("local", &[], &[".local/bin"]),
];

/// Begins a row: a writable directory without credentials.
const fn row(
    name: &'static str,
    variables: &'static [&'static str],
    defaults: &'static [&'static str],
) -> ToolchainRow {
    ToolchainRow { name, variables, defaults, credentials: &[], suspects: &[], is_writable: true }
}

impl ToolchainRow {
    /// Sets the credentials of a row.
    const fn hides(mut self, credentials: &'static [&'static str]) -> Self {
        self.credentials = credentials;
        self
    }

    /// Sets the suspected files of a row.
    const fn checks(mut self, suspects: &'static [&'static str]) -> Self {
        self.suspects = suspects;
        self
    }

    /// Makes a row read-only.
    const fn read_only(mut self) -> Self {
        self.is_writable = false;
        self
    }
}
