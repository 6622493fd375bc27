//! Subcommands that report, such as `npm ls`, `pip list` or `docker ps`. Each has a table of all its options, so only an unknown option is
//! a risk.
//!
//! They do not count as commands that only read. Most of them ask a server, some start other programs that files of the workspace name, and
//! a virtual environment may decide which program runs. So they run on a stage like other commands.

use super::options;
use crate::shell::command_facts::CommandFacts;
use crate::shell::syntax::Word;

/// A program with its reporting subcommands.
struct ReportingProgram {
    /// Names of the program, separated by blanks.
    programs: &'static str,
    /// Table of the options before and behind every subcommand; see [`options`].
    everywhere: &'static str,
    /// The subcommands, of one word or two, grouped by their option table.
    subcommands: &'static [(&'static [&'static str], &'static str)],
}

/// Parses the options of a reporting subcommand and returns true. For other subcommands it only parses the options before them and returns
/// false.
pub(super) fn note_report(name: &str, words: &[Word], facts: &mut CommandFacts) -> bool {
    let Some(row) =
        REPORTING_PROGRAMS.iter().find(|row| row.programs.split(' ').any(|it| it == name))
    else {
        return false;
    };
    let parsed = options::parse_leading(&[row.everywhere], words, 1, facts);
    let Some(begin) = parsed.operands.first().copied() else { return false };
    let text = |at: usize| words.get(at).map_or("", |word| word.text.as_str());
    let pair = format!("{} {}", text(begin), text(begin + 1));
    let is = |name: &str| {
        row.subcommands.iter().find(|(names, _)| names.contains(&name)).map(|(_, table)| *table)
    };
    let (table, length) = match (is(&pair), is(text(begin))) {
        (Some(table), _) => (table, 2),
        (None, Some(table)) => (table, 1),
        (None, None) => return false,
    };
    options::parse(&[row.everywhere, table], words, begin + length, facts);
    true
}

/// Returns every pair of a program and a reporting subcommand.
#[cfg(test)]
pub(in crate::shell) fn all() -> impl Iterator<Item = (&'static str, &'static str)> {
    REPORTING_PROGRAMS.iter().flat_map(|row| {
        let programs = row.programs.split(' ');
        programs.flat_map(|program| {
            let subcommands = row.subcommands.iter().flat_map(|(names, _)| names.iter());
            subcommands.map(move |subcommand| (program, *subcommand))
        })
    })
}

// Options before and behind every subcommand, by program.
const NPM: &str = "\
    s,silent q,quiet d,verbose loglevel= color? no-color no-progress no-update-notifier offline prefer-offline prefer-online \
    w,workspace= workspaces,ws include-workspace-root h,help g,global y,yes no-audit no-fund tag= access= f,force ignore-scripts \
    C,prefix=^ cache=^ userconfig=! globalconfig=! registry=^ omit= include=";
const PNPM: &str = "\
    C,dir=^ r,recursive F,filter= filter-prod= w,workspace-root s,silent reporter= loglevel= color no-color stream aggregate-output \
    use-stderr parallel workspace-concurrency= sort no-sort reverse fail-if-no-match no-fail-if-no-match include-workspace-root \
    no-include-workspace-root ignore-workspace test-pattern= changed-files-ignore-pattern= no-progress y,yes h,help v,version \
    env-file=! store-dir=^ state-dir=^ npmrc-auth-file=! workspace-packages= registry=^ https-proxy=^ http-proxy=^ no-proxy=";
const YARN: &str = "\
    v,version verbose offline prefer-offline enable-pnp,pnp disable-pnp strict-semver json ignore-scripts ignore-platform ignore-engines \
    ignore-optional s,silent no-progress no-emoji emoji? non-interactive no-node-version-check frozen-lockfile pure-lockfile \
    no-lockfile no-bin-links prod,production? flat force h,help network-timeout= network-concurrency= network-mutex= \
    no-default-rc use-yarnrc=! har^ registry=^ cache-folder=^ modules-folder=^ preferred-cache-folder=^ global-folder=^ cwd=^ \
    proxy=^ https-proxy=^ mutex= scripts-prepend-node-path? otp= skip-integrity-check check-files link-duplicates link-folder=^";
const PIP: &str = "\
    h,help debug isolated require-virtualenv v,verbose q,quiet no-input retries= timeout= exists-action= no-cache-dir \
    disable-pip-version-check no-color no-python-version-warning use-feature= use-deprecated= \
    python=! log=> proxy=^ keyring-provider=! trusted-host=^ cert=^ client-cert=^ cache-dir=^";
const UV: &str = "\
    managed-python no-managed-python no-python-downloads n,no-cache q,quiet v,verbose color= offline no-progress no-config h,help \
    native-tls system-certs p,python=! cache-dir=^ directory=^ project=^ config-file=! allow-insecure-host=^";
const GO: &str = "WORDS C=^";
const DOCKER: &str = "\
    D,debug l,log-level= v,version tls tlsverify config=! c,context=^ H,host=^ tlscacert=^ tlscert=^ tlskey=^";
const KUBECTL: &str = "\
    n,namespace= context= cluster= user= request-timeout= match-server-version warnings-as-errors v= vmodule= h,help as=^ as-group=^ \
    as-uid=^ cache-dir=^ certificate-authority=^ client-certificate=^ client-key=^ insecure-skip-tls-verify^ kubeconfig=! password=^ \
    username=^ token=^ s,server=^ tls-server-name=^ profile= profile-output=> disable-compression log-file=> log-dir=^";
const GH: &str = "help R,repo=";
const HELM: &str = "\
    debug n,namespace= kube-context= h,help burst-limit= qps= kube-apiserver=^ kube-as-group=^ kube-as-user=^ kube-ca-file=^ \
    kube-insecure-skip-tls-verify^ kube-tls-server-name=^ kube-token=^ kubeconfig=! registry-config=^ repository-cache=^ \
    repository-config=^";
const TERRAFORM: &str = "WORDS chdir=^ help version";

#[rustfmt::skip]
/// All programs with reporting subcommands.
const REPORTING_PROGRAMS: &[ReportingProgram] = &[
    ReportingProgram { programs: "npm", everywhere: NPM, subcommands: &[
        (&["ls", "list", "la", "ll"], "\
            a,all json l,long p,parseable depth= link package-lock-only unicode no-unicode install-links prod,production dev"),
        (&["explain", "why"], "json"),
        (&["query"], "json package-lock-only expect-results no-expect-results expect-result-count="),
        (&["root", "prefix", "bin", "whoami", "ping"], "json"),
        (&["outdated"], "a,all json l,long p,parseable before= depth="),
        (&["view", "info", "show", "v"], "json"),
        (&["audit", "audit signatures"], "audit-level= json package-lock-only install-links include-attestations prod,production"),
        (&["search", "find"], "json l,long p,parseable no-description searchlimit= searchopts= searchexclude="),
        (&["fund"], "json no-browser unicode no-unicode which= browser!"),
        (&["config get", "config list", "config ls", "get"], "json l,long L,location="),
        (&["pkg get", "dist-tag ls", "owner ls", "doctor"], "json"),
    ] },
    ReportingProgram { programs: "pnpm", everywhere: PNPM, subcommands: &[
        (&["list", "ls", "la", "ll", "why"], "P,prod D,dev optional no-optional exclude-peers json long depth= g,global parseable find-by= only-projects lockfile-only"),
        (&["outdated"], "P,prod D,dev optional no-optional json long g,global compatible format= table no-table sort-by= include-github-actions"),
        (&["licenses", "licenses list"], "P,prod D,dev optional no-optional json long"),
        (&["audit"], "P,prod D,dev optional no-optional json audit-level= ignore-registry-errors"),
        (&["root", "bin", "config get", "config list"], "g,global json"),
    ] },
    ReportingProgram { programs: "yarn", everywhere: YARN, subcommands: &[
        (&["list"], "depth= pattern="),
        (&["why"], "R,recursive peers"),
        (&["info", "npm info"], "A,all R,recursive X,extra= cache dependents manifest name-only virtuals f,fields="),
        (&["outdated", "versions", "bin", "workspaces info", "config get", "config list", "licenses list"], ""),
        (&["workspaces list"], "R,recursive no-private since?"),
        (&["audit"], "level= groups="),
    ] },
    ReportingProgram { programs: "pip pip3", everywhere: PIP, subcommands: &[
        (&["list"], "\
            o,outdated u,uptodate e,editable l,local user path=^ format= not-required exclude-editable include-editable exclude= \
            pre no-index i,index-url=^ extra-index-url=^ f,find-links=^"),
        (&["freeze"], "r,requirement=^ l,local user path=^ all exclude-editable exclude="),
        (&["show"], "f,files"),
        (&["check"], ""),
        (&["inspect"], "local user path=^"),
        (&["debug"], "platform= python-version= implementation= abi="),
        (&["config list", "config get", "config debug"], "global user site"),
        (&["cache dir", "cache info", "cache list"], "format="),
        (&["index versions"], "pre no-index i,index-url=^ extra-index-url=^ f,find-links=^"),
    ] },
    ReportingProgram { programs: "uv", everywhere: UV, subcommands: &[
        (&["pip list", "pip freeze", "pip show", "pip check", "pip tree"], "\
            e,editable exclude-editable exclude= format= outdated f,files path=^ python-version= python-platform= d,depth= prune= package= \
            no-dedupe invert show-version-specifiers show-sizes strict no-index index-strategy= exclude-newer= exclude-newer-package= system \
            index=^ default-index=^ i,index-url=^ extra-index-url=^ find-links=^ keyring-provider=! cert=^ t,target=^ prefix=^"),
        (&["tree"], "\
            universal format= d,depth= prune= package= no-dedupe invert outdated show-sizes no-dev dev only-dev group= no-group= \
            no-default-groups only-group= all-groups locked frozen python-version= python-platform= script=^ upgrade,U"),
        (&["version"], "short output-format= dry-run"),
        (&["python list"], "all-versions all-platforms all-arches only-installed only-downloads show-urls output-format= python-downloads-json-url=^"),
        (&["python find"], "no-project system show-version resolve-links script=^ python-downloads-json-url=^"),
        (&["python dir", "cache dir", "tool dir"], "bin"),
        (&["tool list"], "show-paths show-version-specifiers show-with show-extras show-python outdated"),
    ] },
    ReportingProgram { programs: "go", everywhere: GO, subcommands: &[
        (&["version"], "m v json"),
        (&["env"], "json changed w^ u^"),
        (&["doc"], "all c cmd short src u ex"),
        (&["help"], ""),
        (&["list"], "\
            f= m json? deps e export find test u versions retracted compiled race msan asan tags= mod=^ modfile=^ overlay=^ reuse=^ \
            toolexec=! n x v buildvcs? compiler= trimpath"),
        (&["mod graph"], "go= x"),
        (&["mod why"], "m vendor"),
        (&["mod verify"], ""),
    ] },
    ReportingProgram { programs: "docker podman nerdctl", everywhere: DOCKER, subcommands: &[
        (&["ps", "container ls", "container list", "container ps"], "a,all f,filter= format= n,last= latest no-trunc q,quiet s,size"),
        (&["images", "image ls", "image list"], "a,all digests f,filter= format= no-trunc q,quiet tree"),
        (&["logs", "container logs"], "details f,follow since= n,tail= t,timestamps until="),
        (&["inspect", "container inspect", "image inspect", "volume inspect", "network inspect"], "f,format= s,size type= platform= verbose"),
        (&["version", "info", "system info"], "f,format="),
        (&["stats", "container stats"], "a,all format= no-stream no-trunc"),
        (&["port", "top", "diff", "container port", "container top", "container diff"], ""),
        (&["search"], "f,filter= format= limit= no-trunc"),
        (&["history", "image history"], "format= human no-trunc platform= q,quiet"),
        (&["events", "system events"], "f,filter= format= since= until="),
        (&["network ls", "volume ls", "network list", "volume list"], "f,filter= format= no-trunc q,quiet"),
        (&["context ls", "context list"], "format= q,quiet"),
        (&["system df"], "format= verbose"),
        (&["compose ps"], "a,all filter= format= no-trunc orphans? q,quiet services status="),
        (&["compose logs"], "follow,f index= no-color no-log-prefix since= n,tail= t,timestamps until="),
        (&["compose ls"], "a,all filter= format= q,quiet"),
        (&["compose top", "compose images", "compose port", "compose version"], "f,format= q,quiet index= protocol= short"),
    ] },
    ReportingProgram { programs: "kubectl oc", everywhere: KUBECTL, subcommands: &[
        (&["get"], "\
            A,all-namespaces l,selector= R,recursive allow-missing-template-keys? chunk-size= field-selector= ignore-not-found? \
            L,label-columns= no-headers? o,output= output-watch-events? server-print? show-kind? show-labels? show-managed-fields? sort-by= \
            subresource= template= watch watch-only w f,filename=^ k,kustomize=^ raw=^"),
        (&["describe"], "A,all-namespaces l,selector= R,recursive chunk-size= show-events? f,filename=^ k,kustomize=^"),
        (&["logs"], "\
            all-containers? all-pods? c,container= f follow? ignore-errors? limit-bytes= max-log-requests= pod-running-timeout= prefix? p \
            previous? l,selector= since= since-time= tail= timestamps? insecure-skip-tls-verify-backend^"),
        (&["version"], "client? o,output= short"),
        (&["api-resources"], "api-group= cached? categories= namespaced? no-headers? o,output= sort-by= verbs="),
        (&["api-versions", "cluster-info", "config current-context"], ""),
        (&["top pod", "top pods", "top node", "top nodes"], "A,all-namespaces containers? no-headers? l,selector= field-selector= sort-by= sum? show-capacity? use-protocol-buffers?"),
        (&["explain"], "api-version= recursive? output="),
        (&["config view"], "allow-missing-template-keys? flatten? merge? minify? o,output= template= raw^"),
        (&["config get-contexts", "config get-clusters", "config get-users"], "no-headers? o,output="),
        (&["auth can-i"], "A,all-namespaces list no-headers q,quiet subresource="),
        (&["rollout status", "rollout history"], "l,selector= w watch? timeout= revision= o,output="),
    ] },
    ReportingProgram { programs: "gh", everywhere: GH, subcommands: &[
        (&["pr list", "issue list"], "\
            q,jq= json= t,template= L,limit= l,label= S,search= s,state= a,assignee= A,author= app= B,base= d,draft H,head= mention= \
            m,milestone= w,web!"),
        (&["pr view", "issue view", "release view"], "c,comments q,jq= json= t,template= w,web!"),
        (&["pr status", "issue status"], "c,conflict-status q,jq= json= t,template="),
        (&["pr diff"], "color= name-only patch e,exclude= w,web!"),
        (&["pr checks"], "i,interval= required watch fail-fast q,jq= json= t,template= w,web!"),
        (&["repo list"], "archived fork q,jq= json= l,language= L,limit= no-archived source t,template= topic= visibility="),
        (&["repo view"], "b,branch= q,jq= json= t,template= w,web!"),
        (&["run list"], "a,all b,branch= c,commit= created= e,event= q,jq= json= L,limit= s,status= t,template= u,user= w,workflow="),
        (&["run view"], "a,attempt= exit-status j,job= q,jq= json= log log-failed t,template= v,verbose w,web!"),
        (&["run watch"], "exit-status i,interval= compact"),
        (&["release list"], "exclude-drafts exclude-pre-releases L,limit= q,jq= json= t,template= O,order="),
        (&["workflow list"], "a,all L,limit= q,jq= json= t,template="),
        (&["workflow view"], "r,ref= y,yaml w,web!"),
        (&["label list"], "q,jq= json= L,limit= order= S,search= sort= t,template= w,web!"),
        (&["gist list"], "L,limit= public secret filter= include-content"),
        (&["gist view"], "f,filename= files r,raw w,web!"),
        (&["auth status"], "a,active hostname= h= t,show-token^"),
        (&["status"], "e,exclude= o,org="),
        (&["search issues", "search prs", "search repos"], "\
            app= archived? assignee= author= B,base= checks= closed= commenter= comments= created= draft? followers= forks= \
            good-first-issues= help-wanted-issues= H,head= include-forks= include-prs interactions= involves= q,jq= json= label= language= \
            license= L,limit= locked? match= mentions= merged? merged-at= milestone= no-assignee no-label no-milestone no-project \
            number-topics= order= owner= project= reactions= repo= review= review-requested= reviewed-by= size= sort= stars= state= \
            team-mentions= t,template= topic= updated= visibility= w,web!"),
    ] },
    ReportingProgram { programs: "helm", everywhere: HELM, subcommands: &[
        (&["list", "ls"], "\
            a,all A,all-namespaces d,date deployed failed f,filter= m,max= no-headers offset= o,output= pending r,reverse l,selector= \
            q,short superseded time-format= uninstalled uninstalling"),
        (&["status"], "o,output= revision= show-desc show-resources"),
        (&["history"], "max= o,output="),
        (&["version"], "c,client template= short"),
        (&["show chart", "show values", "show readme", "show all", "show crds"], "\
            devel jsonpath= version= verify ca-file=^ cert-file=^ key-file=^ keyring=^ insecure-skip-tls-verify^ pass-credentials^ \
            password=^ username=^ plain-http^ repo=^"),
    ] },
    ReportingProgram { programs: "terraform tofu", everywhere: TERRAFORM, subcommands: &[
        (&["version"], "json"),
        (&["show"], "json no-color"),
        (&["validate"], "json no-color no-tests test-directory=^"),
        (&["output"], "json raw no-color state=^"),
        (&["state list"], "id= state=^"),
        (&["providers", "workspace list", "workspace show"], ""),
        (&["plan"], "\
            compact-warnings destroy detailed-exitcode generate-config-out=^ input= json lock= lock-timeout= no-color parallelism= refresh-only \
            refresh= replace= target= exclude= var=^ var-file=^ out=> state=^"),
        (&["fmt"], "check diff list= no-color recursive write="),
    ] },
];
