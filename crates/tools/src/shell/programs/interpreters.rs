//! Programs that run what they are given, build what a directory describes, or talk to others. None of them only reads; a rule
//! can allow them by their words, and must name the words that say what is run.

use windlass_core::OnlyReads;

use crate::shell::found::Found;
use crate::shell::syntax::Word;

/// A program, and the options that change what it runs, reads or writes. One that ends in `*` means all that begin like this.
struct Risky {
    names: &'static str,
    options: &'static str,
    /// Whether several of its short options may stand in one word.
    clusters: bool,
}

const ALL: &str = "-*";

const RISKY: &[Risky] = &[
    Risky {
        names: "python python2 python3 pypy pypy3 ruby perl php lua luajit node nodejs deno bun Rscript julia tclsh guile",
        options: ALL,
        clusters: false,
    },
    Risky {
        names: "sh bash dash zsh ksh mksh ash fish csh tcsh busybox",
        options: ALL,
        clusters: false,
    },
    Risky {
        names: "make gmake",
        options: "-f* --file* --makefile* -C* --directory* -I* --include-dir* --eval* -E* *=* -e --environment-overrides",
        clusters: true,
    },
    Risky {
        names: "ninja meson cmake bazel just",
        options: "-f* -C* -P* -E* --build* -t* --justfile* -d* --working-directory* --bazelrc* --set* --shell*",
        clusters: false,
    },
    Risky {
        names: "cargo",
        options: "--config* -Z* --manifest-path* --target-dir* -C* --out-dir* --artifact-dir* +*",
        clusters: false,
    },
    Risky {
        names: "rustc rustup",
        options: "-C* -o* --out-dir* --emit* -Z* --codegen*",
        clusters: false,
    },
    Risky {
        names: "go",
        options: "-C* -exec* -toolexec* -vettool* -o* -overlay* -modfile* -ldflags* -gcflags* -asmflags* -mod* --exec*",
        clusters: false,
    },
    Risky {
        names: "npm npx pnpm yarn bunx",
        options: "--prefix* -C* --cwd* --script-shell* --shell* --userconfig* --globalconfig* --node-options* -c --call* --package* --ignore-scripts=false --dir* --registry*",
        clusters: false,
    },
    Risky {
        names: "pip pip3 uv poetry pipx",
        options: "--target* -t* --prefix* --root* -i* --index-url* --extra-index-url* -e* --editable* -r* --python* --config* -C* --directory*",
        clusters: false,
    },
    Risky {
        names: "pytest tox nox",
        options: "-p* -c* --rootdir* -o* --override-ini* --confcutdir* --basetemp* -e* --pdbcls* --junit-xml* --junitxml*",
        clusters: false,
    },
    Risky {
        names: "mvn gradle gradlew sbt",
        options: "-D* -f* --file* -s* --settings* -I* --init-script* -b* -c* -p* --project-dir* -P*",
        clusters: false,
    },
    Risky {
        names: "gcc cc g++ c++ clang clang++ ld as",
        options: "-o* -wrapper* -B* -fplugin* -specs* -Xclang* -load* @* -T* -Wp,* -Wl,* -iplugindir* --config*",
        clusters: false,
    },
    Risky {
        names: "curl",
        options: "-o* --output* -O* --remote-name* -K* --config* -T* --upload-file* -d* --data* -F* --form* -X* --request* -D* --dump-header* -c* --cookie-jar* --libcurl* --trace* --unix-socket* -x* --proxy* --engine* -E* --cert* -b* -H* --header* --output-dir* --etag-save* --hsts* --alt-svc* -u* --netrc* -n file:*",
        clusters: true,
    },
    Risky {
        names: "wget",
        options: "-O* --output-document* -o* --output-file* -P* --directory-prefix* -i* --input-file* --use-askpass* -e* --execute* --config* --post-* --body-* --method* -a* --append-output* --save-cookies* --warc-* --header*",
        clusters: true,
    },
    Risky {
        names: "ssh scp sftp rsync",
        options: "-o* -F* -e* --rsh* --rsync-path* -J* -S* -L* -R* -D* -W* -E* -I* -i* --files-from* --temp-dir* --log-file* --write-batch*",
        clusters: true,
    },
    Risky {
        names: "docker podman nerdctl kubectl helm",
        options: "-v* --volume* --mount* --privileged* -f* --file* -H* --host* --config* --entrypoint* --device* --pid* --net* --network* -c* --kubeconfig*",
        clusters: false,
    },
    Risky {
        names: "vim vi nvim view ex emacs nano ed less more man most",
        options: "-* +*",
        clusters: false,
    },
    Risky { names: "gdb lldb expect", options: ALL, clusters: false },
    Risky { names: "sqlite3 psql mysql", options: "*", clusters: false },
    Risky {
        names: "zip unzip 7z gzip gunzip xz bzip2 zstd",
        options: "-T* -TT* --unzip-command* -o* -d* -O* -P*",
        clusters: true,
    },
    Risky { names: "sudo doas su runuser pkexec", options: ALL, clusters: false },
    Risky { names: "yq", options: "-i* --inplace* --in-place* -s* --split-exp*", clusters: false },
    Risky {
        names: "nc ncat netcat socat telnet",
        options: "-e* --exec* -c* --sh-exec* -l* EXEC* SYSTEM*",
        clusters: true,
    },
];

pub(super) fn interpreter(words: &[Word], found: &mut Found) -> bool {
    let Some((program, arguments)) = words.split_first() else { return false };
    let name = program.text.as_str();
    let Some(row) = RISKY.iter().find(|row| row.names.split(' ').any(|known| known == name)) else {
        return false;
    };
    if let [only] = arguments
        && asks_for_version(name, only)
    {
        // Some find out by files of the project which of their versions is meant.
        found.reads(OnlyReads::InSandbox);
        return true;
    }
    for (at, word) in words.iter().enumerate().skip(1) {
        let is_meant = row.options.split(' ').any(|option| row.fits(option, &word.text));
        if is_meant || word.could_be_option() {
            found.risk(at, "says what is run, read or written");
        }
    }
    if matches!(name, "make" | "gmake") {
        make(words, found);
    }
    true
}

/// A dry run of `make` still runs what the makefile calculates: somebody who allows it may not know, and so no rule is enough.
fn make(words: &[Word], found: &mut Found) {
    let dry = |word: &&Word| {
        matches!(
            word.text.as_str(),
            "--dry-run" | "--just-print" | "--recon" | "--question" | "--touch"
        ) || (word.text.starts_with('-')
            && !word.text.starts_with("--")
            && word.text.contains(['n', 'q', 'p']))
    };
    if words.iter().skip(1).any(|word| dry(&word)) {
        found.risk(
            words.len(),
            "runs what the makefile calculates, also when nothing is to be made",
        );
    }
}

fn asks_for_version(name: &str, word: &Word) -> bool {
    let text = word.text.as_str();
    let is_short = match name {
        "node" | "nodejs" | "npm" | "npx" | "pnpm" | "yarn" | "bun" | "perl" | "php" | "ruby" => {
            text == "-v"
        }
        "go" | "docker" | "kubectl" | "helm" => text == "version",
        "sh" | "bash" | "dash" | "zsh" | "ksh" | "mksh" | "ash" | "fish" | "csh" | "tcsh" => false,
        _ => text == "-V",
    };
    is_short || text == "--version"
}

impl Risky {
    fn fits(&self, option: &str, word: &str) -> bool {
        let is_letter = option.len() == 3 && option.starts_with('-') && option.ends_with('*');
        if self.clusters && is_letter && word.starts_with('-') && !word.starts_with("--") {
            return option.chars().nth(1).is_some_and(|letter| word.contains(letter));
        }
        match option.split_once('*') {
            Some((head, "")) => word.starts_with(head),
            Some((head, tail)) => {
                word.starts_with(head) && word.contains(tail.trim_end_matches('*'))
            }
            None => word == option,
        }
    }
}
