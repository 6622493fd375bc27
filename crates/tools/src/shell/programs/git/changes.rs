//! The git commands that change something, each with its option table; see [`options`](super::super::options) for the marks.

use crate::git::verbs::{BRANCH, DIFF, HISTORY};

/// Options of `fetch` and `pull`.
const FETCH: &str = "\
    v,verbose q,quiet a,append atomic upload-pack=! f,force m,multiple t,tags n no-tags j,jobs= prefetch p,prune P,prune-tags \
    recurse-submodules?! no-recurse-submodules dry-run porcelain write-fetch-head no-write-fetch-head k,keep u,update-head-ok progress \
    no-progress depth= shallow-since= shallow-exclude= deepen= unshallow refetch update-shallow refmap= o,server-option= 4,ipv4 6,ipv6 all \
    negotiation-tip= negotiate-only filter= auto-maintenance no-auto-maintenance auto-gc no-auto-gc show-forced-updates set-upstream stdin";
/// Options of `merge` and `pull`.
const MERGE: &str = "\
    commit no-commit e,edit! no-edit ff no-ff ff-only squash no-squash s,strategy=! X,strategy-option= m,message= F,file=< log? no-log stat \
    n,no-stat compact-summary S,gpg-sign?! no-gpg-sign verify-signatures! no-verify-signatures q,quiet v,verbose progress autostash \
    no-autostash allow-unrelated-histories into-name= abort quit continue no-verify verify signoff no-signoff cleanup= rerere-autoupdate";
/// Options of `checkout`, `switch` and `restore`.
const SWITCH: &str = "\
    q,quiet progress no-progress f,force ours theirs b= B= t,track? no-track guess no-guess l d,detach orphan= ignore-skip-worktree-bits \
    m,merge conflict= p,patch ignore-other-worktrees overwrite-ignore no-overwrite-ignore recurse-submodules?! no-recurse-submodules overlay \
    no-overlay pathspec-from-file=< pathspec-file-nul c,create= C,force-create= discard-changes s,source= W,worktree S,staged ignore-unmerged";
/// Options of `cherry-pick` and `revert`.
const PICK: &str = "\
    e,edit! no-edit cleanup= x r m,mainline= n,no-commit s,signoff S,gpg-sign?! no-gpg-sign ff allow-empty allow-empty-message empty= \
    keep-redundant-commits strategy=! X,strategy-option= rerere-autoupdate continue skip abort quit reference";

/// The commands that change something, with their option tables. A name that is missing here may be an alias of the repository.
pub(super) const CHANGING_COMMANDS: &[(&str, &[&str])] = &[
    (
        "add",
        &[
            "v,verbose n,dry-run f,force i,interactive p,patch e,edit! u,update A,all no-all,ignore-removal no-ignore-removal N,intent-to-add \
            refresh ignore-errors ignore-missing renormalize sparse chmod= pathspec-from-file=< pathspec-file-nul U= inter-hunk-context=",
        ],
    ),
    (
        "am",
        &[
            "s,signoff k,keep keep-non-patch keep-cr no-keep-cr c,scissors no-scissors quoted-cr= empty= m,message-id no-message-id q,quiet \
            u,utf8 no-utf8 3,3way no-3way rerere-autoupdate ignore-space-change ignore-whitespace whitespace= C= p= directory= exclude= \
            include= reject patch-format= i,interactive n,no-verify committer-date-is-author-date ignore-date skip S,gpg-sign?! \
            r,continue,resolved abort quit show-current-patch? allow-empty retry",
        ],
    ),
    (
        "apply",
        &[
            "stat numstat summary check index N,intent-to-add 3,3way ours theirs union build-fake-ancestor=^ R,reverse reject z p= C= \
            unidiff-zero apply no-add binary allow-binary-replacement exclude= include= ignore-space-change ignore-whitespace whitespace= \
            inaccurate-eof v,verbose q,quiet recount directory= unsafe-paths^ allow-empty cached",
        ],
    ),
    (
        "archive",
        &[
            "NUMBER format= l,list v,verbose prefix= o,output=> add-file=< add-virtual-file= worktree-attributes mtime= remote=! exec=!",
        ],
    ),
    ("bisect", &["no-checkout first-parent term-new= term-old= term-good= term-bad="]),
    (
        "branch",
        &[BRANCH, "u,set-upstream-to= unset-upstream t,track? edit-description! create-reflog"],
    ),
    ("bundle", &["q,quiet progress all-progress version= all branches? tags?"]),
    ("checkout", &[SWITCH]),
    ("checkout-index", &["u,index q,quiet f,force a,all n,no-create prefix=^ stage= temp stdin z"]),
    ("cherry-pick", &[PICK]),
    ("clean", &["d f,force i,interactive n,dry-run q,quiet e,exclude= x X"]),
    (
        "clone",
        &[
            "l,local no-local no-hardlinks hardlinks s,shared reference=^ reference-if-able=^ dissociate q,quiet v,verbose progress \
            server-option= n,no-checkout reject-shallow no-reject-shallow bare sparse filter= mirror o,origin= b,branch= revision= \
            u,upload-pack=! template=! c,config=! depth= shallow-since= shallow-exclude= single-branch no-single-branch tags no-tags \
            recurse-submodules?! recursive! shallow-submodules remote-submodules separate-git-dir=^ j,jobs= bundle-uri=",
        ],
    ),
    (
        "commit",
        &[
            "q,quiet v,verbose F,file=< author= date= m,message= c,reedit-message=! C,reuse-message= fixup= squash= reset-author trailer= \
            s,signoff no-signoff t,template=< e,edit! no-edit cleanup= status no-status S,gpg-sign?! no-gpg-sign a,all i,include p,patch o,only \
            n,no-verify verify dry-run short branch ahead-behind porcelain long z,null amend no-post-rewrite u,untracked-files? \
            pathspec-from-file=< pathspec-file-nul allow-empty allow-empty-message interactive",
        ],
    ),
    ("commit-tree", &["p= m= F=< S?! no-gpg-sign"]),
    ("fetch", &[FETCH]),
    (
        "format-patch",
        &[
            HISTORY,
            DIFF,
            "o,output-directory=> N,no-numbered start-number= numbered-files k,keep-subject s,signoff attach? inline? thread? no-thread \
            in-reply-to= subject-prefix= rfc? to= cc= from? no-to no-cc cover-letter cover-from-description= description-file=< signature= \
            no-signature signature-file=< suffix= ignore-if-in-upstream zero-commit base= root v,reroll-count= stdout interdiff= range-diff=",
        ],
    ),
    (
        "fsck",
        &[
            "unreachable dangling no-dangling root tags cache no-reflogs full no-full connectivity-only strict verbose lost-found progress no-progress name-objects",
        ],
    ),
    (
        "gc",
        &[
            "aggressive auto prune? no-prune q,quiet force keep-largest-pack detach no-detach cruft no-cruft",
        ],
    ),
    ("hash-object", &["t= w stdin stdin-paths^ path= no-filters literally"]),
    (
        "init",
        &[
            "q,quiet bare template=! separate-git-dir=^ object-format= ref-format= b,initial-branch= shared?",
        ],
    ),
    (
        "ls-remote",
        &[
            "h,heads b,branches t,tags refs upload-pack=! exec=! q,quiet exit-code get-url sort= symref o,server-option=",
        ],
    ),
    ("maintenance", &["auto task= quiet schedule="]),
    ("merge", &[MERGE]),
    ("mv", &["f,force k n,dry-run v,verbose sparse"]),
    (
        "notes",
        &[
            "f,force m,message= F,file=< C,reuse-message= c,reedit-message=! allow-empty ref= stdin n,dry-run v,verbose s,strategy= q,quiet",
        ],
    ),
    ("prune", &["n,dry-run v,verbose progress expire="]),
    ("pull", &[FETCH, MERGE, "r,rebase? no-rebase"]),
    (
        "push",
        &[
            "v,verbose q,quiet repo= all branches mirror^ d,delete tags follow-tags n,dry-run porcelain f,force force-with-lease? \
            no-force-with-lease force-if-includes no-force-if-includes recurse-submodules=! no-recurse-submodules thin no-thin receive-pack=! \
            exec=! u,set-upstream progress no-progress prune no-verify verify signed? no-signed atomic no-atomic o,push-option= 4,ipv4 6,ipv6",
        ],
    ),
    (
        "read-tree",
        &["m reset i u n,dry-run v aggressive prefix=^ index-output=> no-sparse-checkout empty"],
    ),
    (
        "rebase",
        &[
            "onto= keep-base apply empty= keep-empty no-keep-empty reapply-cherry-picks no-reapply-cherry-picks allow-empty-message skip \
            continue abort quit edit-todo! show-current-patch m,merge s,strategy=! X,strategy-option= rerere-autoupdate S,gpg-sign?! \
            no-gpg-sign q,quiet v,verbose stat n,no-stat no-verify verify C= f,force-rebase,no-ff fork-point no-fork-point ignore-whitespace \
            whitespace= committer-date-is-author-date ignore-date reset-author-date signoff i,interactive! r,rebase-merges? x,exec=$ \
            autosquash no-autosquash autostash no-autostash update-refs no-update-refs root reschedule-failed-exec",
        ],
    ),
    (
        "reflog",
        &[
            "all expire= expire-unreachable= updateref rewrite stale-fix n,dry-run v,verbose single-worktree",
        ],
    ),
    (
        "remote",
        &[
            "v,verbose t= m= f,fetch tags no-tags mirror? p,prune n,dry-run all push add delete a,auto d",
        ],
    ),
    ("repack", &["a A d l f F q n window= depth= max-pack-size= b k unpack-unreachable? cruft"]),
    (
        "reset",
        &[
            "mixed soft hard merge keep N,intent-to-add q,quiet p,patch refresh no-refresh recurse-submodules?! pathspec-from-file=< pathspec-file-nul",
        ],
    ),
    ("restore", &[SWITCH]),
    ("revert", &[PICK]),
    (
        "rm",
        &[
            "f,force n,dry-run r cached ignore-unmatch sparse q,quiet pathspec-from-file=< pathspec-file-nul",
        ],
    ),
    ("sparse-checkout", &["cone no-cone sparse-index no-sparse-index stdin"]),
    (
        "stash",
        &[
            "p,patch S,staged k,keep-index no-keep-index u,include-untracked a,all q,quiet m,message= index pathspec-from-file=< pathspec-file-nul",
        ],
    ),
    (
        "submodule",
        &[
            "q,quiet cached init remote! N,no-fetch f,force checkout merge rebase recursive jobs= reference=^ b,branch= name= depth= all default files",
        ],
    ),
    ("switch", &[SWITCH]),
    ("symbolic-ref", &["d,delete q,quiet short recurse no-recurse m="]),
    (
        "tag",
        &[
            "a,annotate s,sign! no-sign u,local-user=! f,force d,delete v,verify! m,message= F,file=< e,edit! cleanup= create-reflog n? l,list \
            sort= contains~ no-contains~ merged~ no-merged~ points-at= format= i,ignore-case color? column? no-column trailer=",
        ],
    ),
    (
        "update-index",
        &[
            "add remove refresh q,ignore-missing assume-unchanged no-assume-unchanged skip-worktree no-skip-worktree chmod= cacheinfo= \
            index-info stdin z force-remove really-refresh g,again unresolve verbose",
        ],
    ),
    ("update-ref", &["m= d no-deref stdin z create-reflog"]),
    (
        "worktree",
        &[
            "f,force d,detach checkout no-checkout guess-remote track no-track lock orphan b= B= q,quiet expire= reason= n,dry-run v,verbose porcelain z",
        ],
    ),
    ("write-tree", &["missing-ok prefix="]),
    // These commands are decided by their verb.
    (
        "config",
        &[
            "global system local worktree f,file=^ blob= l,list add get get-all unset unset-all replace-all rename-section remove-section e,edit! type= bool int z,null name-only default= fixed-value comment=",
        ],
    ),
];

/// Commands that contact a remote, for which the address `helper::address` starts a program.
pub(super) const REMOTE_COMMANDS: &[&str] =
    &["archive", "clone", "fetch", "ls-remote", "pull", "push", "remote", "submodule", "bundle"];

/// Commands that start another program.
pub(super) const PROGRAM_STARTING_COMMANDS: &[&str] = &[
    "difftool",
    "mergetool",
    "filter-branch",
    "instaweb",
    "help",
    "gui",
    "citool",
    "daemon",
    "shell",
    "send-email",
    "web--browse",
];
