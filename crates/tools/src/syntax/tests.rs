use std::path::Path;

use proptest::prelude::*;

use super::*;
use crate::testing::Workspace;

/// A correct text, a broken one, and the error of the broken text: as a change of the correct one, and as a new file.
type Case = (&'static str, &'static str, &'static str, &'static str, &'static str);

const CASES: &[Case] = &[
    (
        "a.rs",
        "fn a() {\n    if x {\n        y();\n    }\n}\n\nfn b() {\n    z();\n}\n",
        "fn a() {\n    if x {\n        y();\n}\n\nfn b() {\n    z();\n}\n",
        "2:10 its `{` is not closed",
        "2:10 its `{` is not closed",
    ),
    (
        "a.rs",
        "fn a() {\n    let x = 1;\n    let y = 2;\n}\n",
        "fn a() {\n    let x = 1\n    let y = 2;\n}\n",
        "2:14 `;` is missing",
        "2:14 `;` is missing",
    ),
    (
        "a.rs",
        "fn a() {\n    let x = 5;\n}\n",
        "fn a() {\n    let = 5;\n}\n",
        "2:9 unexpected `= 5;`",
        "2:9 unexpected `= 5;`",
    ),
    (
        "a.rs",
        "fn a() {\n    say(\"b\");\n}\nfn c() { \"d\" }\n",
        "fn a() {\n    say(\"b);\n}\nfn c() { \"d\" }\n",
        "2:11 `say(\"b);` does not parse",
        "2:8 its `(` is not closed",
    ),
    (
        "a.rs",
        "mod a {\n    fn b() {\n        c();\n    }\n}\n",
        "mod a {\n    fn b() {\n        c();\n    }}\n}\n",
        "4:6 its `}` closes the `{` of line 1 too early",
        "5:1 its `}` closes nothing",
    ),
    (
        "a.go",
        "package a\n\nfunc f() {\n\tif x {\n\t\ty()\n\t}\n}\n\nfunc g() {\n}\n",
        "package a\n\nfunc f() {\n\tif x {\n\t\ty()\n}\n\nfunc g() {\n}\n",
        "4:7 its `{` is not closed",
        "4:7 its `{` is not closed",
    ),
    (
        "a.go",
        "package a\n\nfunc f() {\n\tx := g(1, 2)\n\ty := 3\n}\n",
        "package a\n\nfunc f() {\n\tx := g(1, 2\n\ty := 3\n}\n",
        "4:8 its `(` is not closed",
        "4:8 its `(` is not closed",
    ),
    (
        "a.go",
        "package a\n\nvar x = 1\n",
        "package a\n\nvar = 1\n",
        "3:5 `var = 1` does not parse",
        "3:1 unexpected `var = 1`",
    ),
    (
        "a.py",
        "def f():\n    pass\n\n\ndef g():\n    pass\n",
        "def f()\n    pass\n\n\ndef g():\n    pass\n",
        "1:8 `def f()` does not parse",
        "1:1 `def f()` does not parse",
    ),
    (
        "a.py",
        "def f():\n    x = g(1, 2)\n    y = 3\n    return y\n",
        "def f():\n    x = g(1, 2\n    y = 3\n    return y\n",
        "2:10 its `(` is not closed",
        "2:10 its `(` is not closed",
    ),
    ("a.py", "x = 'a'\ny = 1\n", "x = 'a\ny = 1\n", "1:5 unexpected `'a`", "1:5 unexpected `'a`"),
    (
        "a.py",
        "x = {'a': f\"{b[1]}\"}\n",
        "x = {'a': f\"{b[1}\"}\n",
        "1:15 its `[` is not closed",
        "1:15 its `[` is not closed",
    ),
    (
        "a.js",
        "function f() {\n  if (x) {\n    y();\n  }\n}\nfunction g() {\n  return 1;\n}\n",
        "function f() {\n  if (x) {\n    y();\n}\nfunction g() {\n  return 1;\n}\n",
        "2:10 its `{` is not closed",
        "2:10 its `{` is not closed",
    ),
    (
        "a.js",
        "const a = {\n  b: 1,\n  c: 2,\n};\n",
        "const a = {\n  b: 1\n  c: 2,\n};\n",
        "3:3 unexpected `c: 2,`, since line 2 was changed",
        "3:3 unexpected `c: 2,`",
    ),
    (
        "a.js",
        "const a = `${b}`;\nconst c = 1;\n",
        "const a = `${b`;\nconst c = 1;\n",
        "1:13 its `{` is not closed",
        "1:13 its `{` is not closed",
    ),
    (
        "a.jsx",
        "const a = <p>b</p>;\n",
        "const a = <p>b</q;\n",
        "1:18 `>` is missing",
        "1:18 `>` is missing",
    ),
    (
        "a.ts",
        "interface A {\n  b: string;\n}\n\nfunction f(): void {}\n",
        "interface A {\n  b: string;\n\nfunction f(): void {}\n",
        "1:13 its `{` is not closed",
        "1:13 its `{` is not closed",
    ),
    (
        "a.ts",
        "const a: Map<string, number> = f(1);\n",
        "const a: Map<string, number> = f(1;\n",
        "1:33 its `(` is not closed",
        "1:33 its `(` is not closed",
    ),
    (
        "a.ts",
        "enum A {\n  b,\n}\n",
        "enum {\n  b,\n}\n",
        "1:6 `enum {` does not parse",
        "1:1 `enum {` does not parse",
    ),
    (
        "a.tsx",
        "const a = <div><p>b</p></div>;\nconst c = 1;\n",
        "const a = <div><p>b</div>;\nconst c = 1;\n",
        "1:22 `const a = <div><p>b</div>;` does not parse",
        "1:1 `const a = <div><p>b</div>;` does not parse",
    ),
    (
        "a.tsx",
        "const a = <p>{b}</p>;\n",
        "const a = <p>{b</p>;\n",
        "1:14 its `{` is not closed",
        "1:14 its `{` is not closed",
    ),
    (
        "a.tsx",
        "const a: string = \"b\";\nconst c = 1;\n",
        "const a: = \"b\";\nconst c = 1;\n",
        "1:8 unexpected `: = \"b\";`",
        "1:8 unexpected `: = \"b\";`",
    ),
    (
        "a.java",
        "class A {\n  int f() {\n    return 1;\n  }\n}\n",
        "class A {\n  int f() {\n    return 1\n  }\n}\n",
        "3:13 `;` is missing",
        "3:13 `;` is missing",
    ),
    (
        "a.java",
        "class A {\n  int f() {\n    if (x) {\n      y();\n    }\n    return 1;\n  }\n}\n",
        "class A {\n  int f() {\n    if (x) {\n      y();\n    return 1;\n  }\n}\n",
        "3:12 its `{` is not closed",
        "3:12 its `{` is not closed",
    ),
    (
        "a.java",
        "class A {\n  int x = f(1);\n}\n",
        "class A {\n  int x = f(1));\n}\n",
        "2:15 its `)` does not close the `{` of line 1",
        "2:15 its `)` does not close the `{` of line 1",
    ),
    (
        "a.c",
        "int main() {\n  if (x) {\n    y();\n  }\n  return 0;\n}\n\nint f() { return 1; }\n",
        "int main() {\n  if (x) {\n    y();\n  return 0;\n}\n\nint f() { return 1; }\n",
        "2:10 its `{` is not closed",
        "2:10 its `{` is not closed",
    ),
    (
        "a.c",
        "int a[] = {1, 2};\nint b;\n",
        "int a[] = {1, 2;\nint b;\n",
        "1:11 its `{` is not closed",
        "1:11 its `{` is not closed",
    ),
    (
        "a.c",
        "int main() {\n  f(\"a\");\n  g(1);\n}\n",
        "int main() {\n  f(\"a);\n  g(1);\n}\n",
        "2:9 `\"` is missing; another in line 3",
        "2:4 its `(` is not closed",
    ),
    (
        "a.h",
        "struct a {\n  int b;\n};\nint f(int c);\n",
        "struct a {\n  int b;\n};\nint f(int c;\n",
        "4:6 its `(` is not closed",
        "4:6 its `(` is not closed",
    ),
    (
        "a.cpp",
        "namespace a {\nclass B {\n  int f() { return v[0]; }\n};\n}\n",
        "namespace a {\nclass B {\n  int f() { return v[0; }\n};\n}\n",
        "3:21 its `[` is not closed",
        "3:21 its `[` is not closed",
    ),
    (
        "a.cpp",
        "void f() {\n  auto g = [](int x) { return x; };\n}\n",
        "void f() {\n  auto g = [](int x) { return x; ;\n}\n",
        "2:22 its `{` is not closed",
        "2:22 its `{` is not closed",
    ),
    (
        "a.cpp",
        "template <typename T>\nT f(T a) {\n  return a;\n}\n",
        "template <typename T>\nT f(T a)\n  return a;\n}\n",
        "2:9 `{` is missing for a later `}`",
        "4:1 its `}` closes nothing",
    ),
    (
        "a.rb",
        "def f\n  if x\n    y\n  end\nend\n\ndef g\n  1\nend\n",
        "def f\n  if x\n    y\nend\n\ndef g\n  1\nend\n",
        "3:6 `y` does not parse",
        "1:1 `def f` does not parse",
    ),
    (
        "a.rb",
        "x = [1, 2]\ny = 3\n",
        "x = [1, 2\ny = 3\n",
        "1:5 its `[` is not closed",
        "1:5 its `[` is not closed",
    ),
    (
        "a.rb",
        "x = \"#{y}\"\nz = 1\n",
        "x = \"#{y\"\nz = 1\n",
        "1:7 its `{` is not closed",
        "1:7 its `{` is not closed",
    ),
    (
        "a.sh",
        "if [ x ]; then\n  echo a\nfi\n\necho b\n",
        "if [ x ]; then\n  echo a\n\necho b\n",
        "4:7 `fi` is missing, since line 3 was changed",
        "4:7 `fi` is missing",
    ),
    (
        "a.sh",
        "f() {\n  echo \"a\"\n}\necho b\n",
        "f() {\n  echo \"a\n}\necho b\n",
        "2:10 `echo \"a` does not parse",
        "1:2 `() {` does not parse",
    ),
    (
        "a.sh",
        "for i in a b; do\n  echo $i\ndone\n",
        "for i in a b; do\n  echo $i\nfi\n",
        "3:3 `done` is missing",
        "3:3 `done` is missing",
    ),
    (
        "a.sh",
        "case $x in\n  a) echo ${b} ;;\nesac\n",
        "case $x in\n  a) echo ${b ;;\nesac\n",
        "2:14 `a) echo ${b ;;` does not parse",
        "2:11 unexpected `${b ;;`",
    ),
    (
        "a.json",
        "{\n  \"a\": 1,\n  \"b\": 2\n}\n",
        "{\n  \"a\": 1\n  \"b\": 2\n}\n",
        "2:9 `\"a\": 1` does not parse",
        "2:3 unexpected `\"a\": 1`",
    ),
    (
        "a.json",
        "{\n  \"a\": 1,\n  \"b\": 2\n}\n",
        "{\n  \"a\": 1,\n  \"b\": 2,\n}\n",
        "3:9 unexpected `,`",
        "3:9 unexpected `,`",
    ),
    (
        "a.json",
        "{\n  \"a\": [1, 2]\n}\n",
        "{\n  \"a\": [1, 2\n}\n",
        "2:8 its `[` is not closed",
        "2:8 its `[` is not closed",
    ),
];

/// Returns the error that a change introduces as `LINE:COLUMN MESSAGE`, or an empty text.
fn new_error_text(name: &str, before: &str, after: &str) -> String {
    new_error(Path::new(name), before, after)
        .map_or(String::new(), |NewSyntaxError { line, column, message }| {
            format!("{line}:{column} {message}")
        })
}

#[track_caller]
fn check(name: &str, before: &str, after: &str, expected: &str) {
    assert_eq!(new_error_text(name, before, after), expected, "{name}: {before:?} → {after:?}");
}

#[test]
fn new_error_is_reported() {
    for (name, good, bad, of_a_change, of_a_new_file) in CASES {
        check(name, good, bad, of_a_change);
        check(name, "", bad, of_a_new_file);
    }
}

#[test]
fn correct_text_has_no_error() {
    for (name, good, bad, ..) in CASES {
        check(name, "", good, "");
        check(name, bad, good, "");
        check(name, good, &format!("{good}\n"), "");
        check(name, good, "", "");
    }
}

#[test]
fn old_error_is_not_reported() {
    for (name, _, bad, ..) in CASES {
        check(name, bad, bad, "");
        check(name, bad, &format!("\n{bad}"), "");
        check(name, bad, &format!("{bad}\n"), "");
        check(name, bad, &bad.replacen('\n', "\n\n", 1), "");
    }
}

#[test]
fn line_endings_do_not_matter() {
    let crlf = |text: &str| text.replace('\n', "\r\n");
    for (name, good, bad, of_a_change, of_a_new_file) in CASES {
        check(name, &crlf(good), &crlf(bad), of_a_change);
        check(name, "", &crlf(bad), of_a_new_file);
        check(name, &crlf(bad), &crlf(good), "");
    }
}

#[test]
fn every_language_has_cases() {
    for language in ["rs", "go", "py", "js", "ts", "tsx", "java", "c", "cpp", "rb", "sh", "json"] {
        let name = format!("a.{language}");
        assert!(CASES.iter().filter(|case| case.0 == name).count() >= 3, "{name}");
    }
}

/// A macro that the grammar of Rust does not understand, but a compiler does.
const UNKNOWN: &str = "fn a() {\n    let b = str![[r#\"c\"#]];\n    d();\n}\n";

#[test]
fn text_unknown_to_the_grammar_is_reported_once_at_most() {
    check("a.rs", "", UNKNOWN, "2:16 unexpected `![[r#\"c\"#]];`");
    for (from, to) in [
        ("d();", "e();"),
        ("d();", "d();\n    e();"),
        ("fn a", "/// A.\nfn a"),
        ("let b", "let other"),
        ("fn a() {", "fn a() {\n    x(1);\n    y(2);"),
        ("    d();\n", ""),
    ] {
        check("a.rs", UNKNOWN, &UNKNOWN.replace(from, to), "");
    }
    check("a.rs", UNKNOWN, &UNKNOWN.replace("d();", "d(;"), "3:6 its `(` is not closed");
    check("a.rs", UNKNOWN, &UNKNOWN.replace("d();", "let = d();"), "3:9 unexpected `= d();`");
}

#[test]
fn another_error_in_a_broken_file_is_reported() {
    let broken = "fn a() {\n    let x = 1\n    b();\n}\n\nfn c() {\n    d();\n}\n";
    for (from, to, expected) in [
        ("d();", "d()", ""),
        ("d();", "let d 1;", "7:11 unexpected `1;`"),
        ("d();", "d((;", "7:6 its `(` is not closed"),
        ("b();", "let y = 2\n    b();", "3:13 unexpected `2`"),
        // One error is repaired, another introduced.
        ("let x = 1\n    b();", "let x = 1;\n    let = b();", "3:9 unexpected `= b();`"),
        ("let x = 1\n", "let x = 1;\n", ""),
        // The error is the same as before.
        ("let x = 1\n", "let longer = 1\n", ""),
    ] {
        check("a.rs", broken, &broken.replace(from, to), expected);
    }
}

#[test]
fn several_errors_are_reported_in_one_line() {
    let good = "a = 1\nb = 2\nc = 3\nd = 4\ne = 5\nf = 6\n";
    check(
        "a.py",
        good,
        &good.replace("b =", "b = =").replace("e =", "e = ="),
        "2:5 unexpected `= 2`; another in line 5",
    );
    let bad = good.replace(" = ", " = = ");
    check("a.py", good, &bad, "1:5 unexpected `= 1`; others in lines 2, 3, 4");
}

#[test]
fn macros_and_conditions_of_c_are_not_errors() {
    let good = "#include <a.h>\n#define LOOP(x) for (;;) { \\\n    x\n\nSTART_EXTERN_C\nEXPORT int f(int a UNUSED)\n{\n\
                #ifdef B\n  if (b) {\n#else\n  if (c) {\n#endif\n    g();\n  }\n  return 0;\n}\nEND_EXTERN_C\n";
    for name in ["a.c", "a.h", "a.cpp"] {
        check(name, "", good, "");
        check(name, good, &good.replace("g();", "g();\n    FOREACH(a, b) RETURN g();"), "");
        check(name, good, &good.replace("g();", "g();\n#ifdef D\n  } else if (d) {\n#endif"), "");
        check(name, good, &good.replace("g();", "g(;"), "13:6 its `(` is not closed");
    }
}

#[test]
fn columns_are_characters() {
    check("a.js", "", "const é日 = 'ñ'; const = 1;\n", "1:17 unexpected `const = 1;`");
    check(
        "a.rs",
        "fn é() { f(\"日\"); }\n",
        "fn é() { f(\"日\"; }\n",
        "1:11 its `(` is not closed",
    );
    check("a.py", "", "\u{feff}x = (\n", "1:6 its `(` is not closed");
}

#[test]
fn shown_line_is_short_and_visible() {
    let text = format!("let = \u{202e}{};\n", "x".repeat(1000));
    check(
        "a.rs",
        "",
        &format!("fn a() {{ {text} }}\n"),
        &format!("1:14 unexpected `= \\u{{202e}}{}…`", "x".repeat(50)),
    );
}

#[test]
fn a_file_that_is_long_or_of_no_known_language_is_not_parsed() {
    check("a.txt", "", "fn a( {", "");
    check("Makefile", "", "a: (", "");
    let line = "const A: u8 = 1;\n";
    let long = line.repeat((64 << 10) / line.len());
    check("a.rs", &long, &format!("{long}fn a( {{"), "");
    check("a.rs", &format!("{long}{long}"), "fn a( {", "");
}

#[test]
fn deep_nesting_is_parsed_safely() {
    for (name, open) in [
        ("a.rs", "("),
        ("a.py", "["),
        ("a.js", "${`"),
        ("a.json", "["),
        ("a.sh", "$("),
        ("a.c", "{"),
        ("a.rb", "\"#{"),
    ] {
        let text = open.repeat(20_000 / open.len());
        let said = new_error_text(name, "", &text);
        assert!(said.is_empty() || said.starts_with("1:"), "{name}: {said}");
    }
}

/// Makes one call, and checks the beginning of its text and the error in its metadata.
fn check_call(workspace: &Workspace, tool: &str, input: Value, text: &str, error: &Value) {
    let result = workspace.call(tool, input);
    assert!(result.output.to_text().starts_with(text), "{}", result.output.to_text());
    let metadata = &result.output.metadata;
    let files = metadata.get("files").and_then(|files| files.get(0));
    let found = metadata.get("syntax_error").or_else(|| files?.get("syntax_error"));
    assert_eq!(found.unwrap_or(&Value::Null), error, "{text}");
}

#[test]
fn every_tool_that_changes_a_file_reports_errors() {
    let workspace = Workspace::new(&[]);
    let calls = |tool, input, text: &str, error| check_call(&workspace, tool, input, text, &error);
    let note = "note: line 1 has a new syntax error: its `(` is not closed";
    let error = json!({"line": 1, "column": 5, "message": "its `(` is not closed"});
    calls(
        "write",
        json!({"path": "a.rs", "content": "fn a( {}\n"}),
        &format!("created a.rs: 1 line, 9 B\n{note}"),
        error.clone(),
    );
    calls(
        "write",
        json!({"path": "a.rs", "content": "fn a() {}\n"}),
        "replaced a.rs: 1 line (+1 -1), 10 B\n@@",
        Value::Null,
    );
    calls(
        "write",
        json!({"path": "a.rs", "content": "fn a( {}\n"}),
        &format!("replaced a.rs: 1 line (+1 -1), 9 B\n{note}\n@@"),
        error.clone(),
    );
    calls(
        "edit",
        json!({"path": "a.rs", "old_string": "a(", "new_string": "a()"}),
        "edited a.rs: 1 replacement, found exactly\n@@",
        Value::Null,
    );
    calls(
        "edit",
        json!({"path": "a.rs", "old_string": "a()", "new_string": "a("}),
        &format!("edited a.rs: 1 replacement, found exactly\n{note}\n@@"),
        error.clone(),
    );
    calls(
        "patch",
        json!({"patch": "*** Begin Patch\n*** Update File: a.rs\n@@\n-fn a( {}\n+fn a() {}\n*** End Patch"}),
        "patched 1 file, 1 hunk\nchanged a.rs: +1 -1\n@@",
        Value::Null,
    );
    calls(
        "patch",
        json!({"patch": "*** Begin Patch\n*** Update File: a.rs\n@@\n-fn a() {}\n+fn a( {}\n*** End Patch"}),
        &format!("patched 1 file, 1 hunk\nchanged a.rs: +1 -1\n{note}\n@@"),
        error,
    );
}

/// Pieces of text that all languages have, and some that few have.
const PIECES: &[&str] = &[
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    "\"",
    "'",
    "`",
    "/*",
    "*/",
    "//",
    "#",
    "\\",
    "\n",
    "\r\n",
    "\t",
    " ",
    "    ",
    "<<",
    "<<A\n",
    "A\n",
    "<<-'B'",
    "\"\"\"",
    "f\"",
    "r#\"",
    "R\"x(",
    "%w[",
    "#{",
    "${",
    "$(",
    "=",
    ";",
    ":",
    ",",
    ".",
    "<",
    ">",
    "</",
    "=>",
    "a",
    "1",
    "é",
    "日",
    "\0",
    "\u{feff}",
    "fn ",
    "def ",
    "class ",
    "if ",
    "else",
    "end\n",
    "fi\n",
    "do\n",
    "case ",
    "import ",
    "=begin\n",
    "#define A ",
    "#if ",
    "#else\n",
    "#endif\n",
];

/// File names, one for each language.
const NAMES: &[&str] = &[
    "a.rs", "a.go", "a.py", "a.js", "a.ts", "a.tsx", "a.java", "a.c", "a.cpp", "a.rb", "a.sh",
    "a.json",
];

fn texts() -> impl Strategy<Value = String> {
    let pieces = prop::collection::vec(prop::sample::select(PIECES), 0..60)
        .prop_map(|pieces| pieces.concat());
    let bytes = prop::collection::vec(any::<u8>(), 0..200)
        .prop_map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    prop_oneof![3 => pieces, 1 => bytes, 1 => any::<String>()]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    /// For any text, an error names a line that exists.
    #[test]
    fn any_text_is_parsed_safely(name in prop::sample::select(NAMES), before in texts(), middle in texts(), cut in 0..1000usize) {
        let cut = before.floor_char_boundary(cut.min(before.len()));
        let after = format!("{}{middle}{}", &before[..cut], &before[cut..]);
        for (old, new) in [("", &*after), (&*before, &*after), (&*after, &*before)] {
            if let Some(error) = new_error(Path::new(name), old, new) {
                let line = new.split('\n').nth(error.line - 1);
                prop_assert!(line.is_some_and(|line| error.column <= line.chars().count() + 1), "{error:?}");
                prop_assert!(!error.message.contains('\n'), "{error:?}");
            }
        }
    }
}
