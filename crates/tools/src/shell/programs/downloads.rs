//! `curl` and `wget`: tables of all their options, and a check for addresses that name local files.

use super::{bare_forms, options};
use crate::shell::command_facts::CommandFacts;
use crate::shell::syntax::Word;

/// The option table of `curl`.
const CURL_OPTIONS: &str = "\
    h,help= M,manual V,version q,disable v,verbose s,silent S,show-error no-progress-meter progress-bar,# styled-output no-styled-output \
    f,fail fail-early fail-with-body i,include,show-headers I,head G,get L,location max-redirs= post301 post302 post303 0,http1.0 http1.1 \
    http2 http2-prior-knowledge http3 http3-only 4,ipv4 6,ipv6 compressed tr-encoding raw r,range= C,continue-at= z,time-cond= R,remote-time \
    A,user-agent= e,referer= k,insecure m,max-time= connect-timeout= expect100-timeout= keepalive-time= no-keepalive retry= \
    retry-all-errors retry-connrefused retry-delay= retry-max-time= limit-rate= rate= Y,speed-limit= y,speed-time= max-filesize= \
    Z,parallel parallel-immediate parallel-max= path-as-is url= g,globoff N,no-buffer no-sessionid no-npn no-alpn tcp-nodelay \
    tcp-fastopen happy-eyeballs-timeout-ms= ignore-content-length noproxy= proto= proto-redir= 1,tlsv1 tlsv1.0 tlsv1.1 tlsv1.2 tlsv1.3 \
    tls-max= tls13-ciphers= ciphers= curves= 2,sslv2 3,sslv3 ssl ssl-reqd ssl-no-revoke ssl-revoke-best-effort cert-status pinnedpubkey= \
    basic digest negotiate ntlm ntlm-wb anyauth trace-time trace-ids j,junk-session-cookies B,use-ascii l,list-only suppress-connect-headers \
    o,output=> D,dump-header=> c,cookie-jar=> libcurl=> trace=> trace-ascii=> stderr=> etag-save=> O,remote-name^ remote-name-all^ \
    J,remote-header-name^ output-dir=^ create-dirs^ create-file-mode= no-clobber remove-on-error xattr K,config=! engine=! \
    T,upload-file=^ a,append^ d,data=^ data-ascii=^ data-binary=^ data-raw=^ data-urlencode=^ json=^ F,form=^ form-string=^ form-escape \
    url-query=^ X,request=^ request-target=^ H,header=^ b,cookie=^ w,write-out=^ etag-compare=^ hsts=^ alt-svc=^ u,user=^ n,netrc^ \
    netrc-optional^ netrc-file=^ oauth2-bearer=^ aws-sigv4=^ location-trusted^ E,cert=^ cert-type= key=^ key-type= pass=^ pubkey=^ cacert=^ \
    capath=^ crlfile=^ random-file=^ egd-file=^ unix-socket=^ abstract-unix-socket=^ interface=^ local-port= resolve=^ connect-to=^ \
    doh-url=^ dns-servers=^ dns-interface=^ dns-ipv4-addr=^ dns-ipv6-addr=^ proto-default=^ x,proxy=^ preproxy=^ socks4=^ socks4a=^ \
    socks5=^ socks5-hostname=^ U,proxy-user=^ p,proxytunnel^ proxy-header=^ Q,quote=^ P,ftp-port=^ t,telnet-option=^ mail-from=^ \
    mail-rcpt=^ mail-auth=^ ssl-allow-beast variable=^ ech=^ ipfs-gateway=^";

/// The option table of `wget`.
const WGET_OPTIONS: &str = "\
    V,version h,help d,debug q,quiet v,verbose no-verbose report-speed= F,force-html B,base= no-config t,tries= retry-connrefused \
    retry-on-http-error= no-clobber c,continue start-pos= progress= show-progress N,timestamping no-if-modified-since \
    no-use-server-timestamps S,server-response spider T,timeout= dns-timeout= connect-timeout= read-timeout= w,wait= waitretry= random-wait \
    no-proxy Q,quota= limit-rate= no-dns-cache restrict-file-names= ignore-case 4,inet4-only 6,inet6-only prefer-family= no-iri \
    local-encoding= remote-encoding= no-directories x,force-directories no-host-directories protocol-directories cut-dirs= no-cache \
    default-page= E,adjust-extension ignore-length compression= max-redirect= referer= U,user-agent= no-http-keep-alive no-cookies \
    keep-session-cookies content-on-error secure-protocol= https-only no-check-certificate pinnedpubkey= ciphers= no-hsts \
    no-remove-listing no-glob no-passive-ftp r,recursive l,level= k,convert-links convert-file-only K,backup-converted m,mirror \
    p,page-requisites strict-comments A,accept= R,reject= accept-regex= reject-regex= regex-type= D,domains= exclude-domains= follow-ftp \
    follow-tags= ignore-tags= H,span-hosts L,relative I,include-directories= trust-server-names X,exclude-directories= no-parent \
    n= O,output-document=> o,output-file=> a,append-output=> rejected-log=> P,directory-prefix=^ b,background^ e,execute=! \
    use-askpass=! config=! i,input-file=^ post-data=^ post-file=^ method=^ body-data=^ body-file=^ header=^ user=^ password=^ ask-password \
    http-user=^ http-password=^ ftp-user=^ ftp-password=^ proxy-user=^ proxy-password=^ load-cookies=^ save-cookies=> save-headers \
    content-disposition^ auth-no-challenge certificate=^ certificate-type= private-key=^ private-key-type= ca-certificate=^ ca-directory=^ \
    crl-file=^ hsts-file=^ bind-address=^ warc-file=^ warc-header=^ warc-max-size= warc-cdx^ warc-dedup=^ warc-tempdir=^ unlink^ xattr \
    delete-after^ preserve-permissions retr-symlinks backups?";

/// Notes the options of `curl`, and a risk for each address that may name a local file.
pub(super) fn curl(words: &[Word], facts: &mut CommandFacts) {
    let parsed = options::parse(&[CURL_OPTIONS], words, 1, facts);
    bare_forms::note(Some(CURL_OPTIONS), words, facts);
    for (at, word) in parsed.operands.iter().filter_map(|at| Some((*at, words.get(*at)?))) {
        if !is_web(&word.text) {
            facts.add_risk(at, "is not a web address");
        }
    }
    for (at, _) in parsed.values("url").filter(|(_, url)| !is_web(&url.text)) {
        facts.add_risk(at, "is not a web address");
    }
}

/// Notes the options of `wget`, which accepts no addresses of local files.
pub(super) fn wget(words: &[Word], facts: &mut CommandFacts) {
    options::parse(&[WGET_OPTIONS], words, 1, facts);
    bare_forms::note(Some(WGET_OPTIONS), words, facts);
}

/// Returns whether an address is one of the web: `http://…`, `https://…`, or a host without a scheme.
fn is_web(address: &str) -> bool {
    let scheme = address.split(['/', '?', '#']).next().unwrap_or_default();
    if scheme.contains(['{', '[']) {
        return false;
    }
    match address.split_once("://") {
        Some((scheme, _)) => ["http", "https"].iter().any(|web| scheme.eq_ignore_ascii_case(web)),
        // `host:80/path`, and not `file:/path`.
        None => scheme
            .split_once(':')
            .is_none_or(|(_, port)| !port.is_empty() && port.bytes().all(|it| it.is_ascii_digit())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn web_addresses_are_recognized() {
        for (address, expected) in [
            ("https://example.org/a?b={c}", true),
            ("HTTP://example.org", true),
            ("example.org/a", true),
            ("localhost:8080/health", true),
            ("http://[::1]/", true),
            ("file:///etc/passwd", false),
            ("FILE:///etc/passwd", false),
            ("file:/etc/passwd", false),
            ("{file}:///etc/passwd", false),
            ("fil[e-e]:///etc/passwd", false),
            ("ftp://example.org", false),
            ("gopher://example.org", false),
        ] {
            assert_eq!(is_web(address), expected, "{address}");
        }
    }
}
