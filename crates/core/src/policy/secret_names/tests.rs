//! Tests of the table by examples.

use super::*;

fn secrecy(path: &str) -> SecretName {
    classify_path(&Path::new("/w").join(path), Path::new("/w"))
}

#[test]
fn secret_names_and_their_copies() {
    for name in [
        ".env",
        ".ENV",
        ".env.local",
        ".env-prod",
        ".env_prod",
        "a/.env",
        ".env~",
        ".env.bak",
        ".env.swp",
        ".env.orig",
        ".env.save",
        ".env.old",
        ".env.1",
        "#.env#",
        ".#.env",
        "..env.swp",
        "..env.swo",
        ".env.local~",
        ".env.~1~",
        ".env.bak.1",
        ".env.production.local",
        ".env.examples",
        "id_rsa",
        "ID_RSA",
        "id_dsa",
        "id_ecdsa",
        "id_ed25519",
        "id_ed448",
        "id_xmss",
        "id_ecdsa_sk",
        "id_ed25519_sk",
        "id_rsa.bak",
        "id_ed25519_work",
        "id_rsa_github",
        ".id_rsa.swp",
        "id_rsa~",
        "#id_rsa#",
        "id_rsa.txt",
        "id_rsa.py.bak",
        "server.pem",
        "SERVER.PEM",
        "tls.key",
        "server.pem~",
        "server.key.bak",
        ".server.pem.swp",
        "vault.kdbx",
        "a.p12",
        "a.pfx",
        "a.jks",
        "a.keystore",
        "a.ppk",
        "a.keychain",
        ".netrc",
        "_netrc",
        ".netrc.bak",
        "..netrc.swp",
        ".git-credentials",
        ".pgpass",
        ".pypirc",
        ".htpasswd",
        ".vault-token",
        "credentials.json",
        "login.keychain-db",
        ".ssh",
        ".ssh/config",
        ".AWS/credentials",
        "x/.gnupg/ring",
        ".azure/a",
        ".kube/config",
        ".password-store/a.gpg",
        ".local/share/keyrings/login.keyring",
        ".config/gcloud/a",
        "node_modules/.env",
        "target/id_rsa",
        "src/build.key",
    ] {
        assert!(matches!(secrecy(name), SecretName::Yes(_)), "{name}: {:?}", secrecy(name));
    }
}

#[test]
fn similar_names_are_not_secret() {
    for name in [
        "README.md",
        ".envrc",
        ".environment",
        ".envrc.md",
        ".env.example",
        ".env-example",
        ".env_sample",
        ".ENV.EXAMPLE",
        ".env.local.example",
        ".env.dist",
        ".env.template",
        ".env.defaults",
        ".env.example.bak",
        ".env.example~",
        "..env.example.swp",
        "id_rsa.pub",
        "ID_RSA.PUB",
        "id_rsa.pub~",
        "id_rsa-cert.pub",
        "id_rsa.rs",
        "id_dsa.go",
        "id_ecdsa_test.py",
        "identity.rs",
        "id_token.ts",
        "key.rs",
        "monkey",
        "pem",
        ".pem",
        "a.pem.rs",
        "src/key/mod.rs",
        "keychain.go",
        "ssh/config",
        "a.swp",
        "a~",
        "#",
        "##",
        ".#",
        "~",
        ".1",
        "a.1",
        "",
        "node_modules/a/cert.pem",
        "target/debug/a.key",
        ".venv/lib/certifi/cacert.pem",
        "lib/site-packages/c.pem",
        "vendor/bundle/a.pem",
        "a/__pycache__/b.key",
        ".tox/a.pem",
    ] {
        assert_eq!(secrecy(name), SecretName::No, "{name}");
    }
}

#[test]
fn location_decides_about_certificates() {
    let (secret, open) = (true, false);
    for (workspace, path, expected) in [
        ("/w", "/usr/lib/ssl/cert.pem", open),
        ("/w", "/etc/ssl/certs/a.pem", open),
        ("/w", "/etc/pki/tls/cert.pem", open),
        ("/w", "/etc/pki/tls/private/host.key", secret),
        ("/w", "/etc/ssl/private/host.key", secret),
        ("/w", "/opt/app/a.pem", open),
        ("/w", "/usr/share/.env", secret),
        ("/w", "/home/a/x.pem", secret),
        ("/w", "/home/a/dist/x.pem", open),
        // The workspace is below such a directory itself.
        ("/opt/app", "/opt/app/server.pem", secret),
        ("/home/a/build/p", "/home/a/build/p/server.key", secret),
        ("/home/a/build/p", "/home/a/build/p/dist/server.key", open),
        ("/w", "/w/vendor/server.key", secret),
        ("/w", "/w/bundle/server.key", secret),
    ] {
        let secrecy = classify_path(Path::new(path), Path::new(workspace));
        assert_eq!(secrecy != SecretName::No, expected, "{path}");
    }
}

#[test]
fn npmrc_is_secret_by_its_location_or_its_content() {
    for name in [".npmrc", "a/.NPMRC", ".npmrc.bak", "..npmrc.swp", "node_modules/a/.npmrc"] {
        assert!(matches!(secrecy(name), SecretName::IfCredential(_)), "{name}");
    }
    let outside = classify_path(Path::new("/home/a/.npmrc"), Path::new("/w"));
    assert!(matches!(outside, SecretName::Yes(_)));
    assert!(matches!(secrecy(".ssh/.npmrc"), SecretName::Yes(_)));
}

#[test]
fn npmrc_with_a_credential_is_recognized() {
    for text in [
        "//r.example/:_authToken=abc",
        "a=b\r\n  //r.example/:_authToken = \"abc\"\r\n",
        "_auth=dTpw",
        "//r.example/:_password=cA==",
        "//r.example/:username=u\n//r.example/:password=p",
        "_authToken=x${TOKEN}",
        "_authToken=${TOKEN}${MORE}",
        "; //r.example/:_authToken=abc",
        "key=\"-----BEGIN\"",
        "//r.example/:cert=x",
        "registry=https://u:p@r.example/",
    ] {
        assert!(holds_credential(text.as_bytes()), "{text}");
    }
    assert!(holds_credential(b"\xff=\xfe"));
    for text in [
        "",
        "registry=https://registry.example/\nsave-exact=true",
        "//r.example/:_authToken=${NPM_TOKEN}",
        "//r.example/:_authToken=\"${NPM_TOKEN?}\"",
        "_auth=",
        "//r.example/:username=u",
        "# the token comes from CI",
        "keyfile=/a/b",
        "registry=https://u:${P}@r.example/",
        "always-auth=true",
    ] {
        assert!(!holds_credential(text.as_bytes()), "{text}");
    }
}
