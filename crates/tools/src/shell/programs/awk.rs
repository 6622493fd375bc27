//! `awk`: its program is searched for anything that writes, runs or fetches.

use windlass_core::OnlyReads;

use super::options;
use crate::shell::command_facts::CommandFacts;
use crate::shell::syntax::Word;

/// The option table of `awk`.
const OPTIONS: &str =
    "F,field-separator= v,assign= f,file=! e,source=! i,include=! l,load=! E,exec=!";

/// Notes the files that `awk` reads, and a risk if its program may do more than print.
pub(super) fn awk(words: &[Word], facts: &mut CommandFacts) {
    facts.set_only_reads(OnlyReads::Always);
    let parsed = options::parse(&[OPTIONS], words, 1, facts);
    let mut operands = parsed.operands.iter();
    if let Some(at) = operands.next()
        && words
            .get(*at)
            .is_none_or(|program| program.glob_at.is_some() || !only_prints(&program.text))
    {
        facts.add_risk(*at, "is a program that may do more than print");
        facts.mark_unseen("has a program that may do more than print");
    }
    for word in operands.filter_map(|at| words.get(*at)) {
        // `name=value` among the files sets a variable; read as a path it does no harm.
        facts.add_read(word);
    }
}

/// Returns whether a program can only print. Strings and patterns are searched too: that costs an unnecessary question now and then, but
/// needs no parser for a difficult grammar.
fn only_prints(program: &str) -> bool {
    const WORDS: &[&str] = &[
        "system", "getline", "close", "fflush", "include", "load", "ARGV", "ARGC", "ENVIRON",
        "PROCINFO", "SYMTAB", "FUNCTAB", "function", "func",
    ];
    let names = program.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
    let has_name = names.into_iter().any(|name| WORDS.contains(&name));
    let bare = program.replace("||", " ").replace(">=", " ");
    // `print > "f"` writes; `$3 > 5` only compares, which is certain if no `print` stands before it.
    let only_compares = match (bare.find("print"), bare.rfind('>')) {
        (Some(print), Some(greater)) => greater < print,
        _ => true,
    };
    let joins_lines = bare.ends_with('\\') || bare.contains("\\\n") || bare.contains("\\\r");
    !has_name && !bare.contains(['|', '@']) && !joins_lines && only_compares
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn awk_programs_that_only_print_are_recognized() {
        for program in [
            "{print $1}",
            "{print}",
            "NR==1",
            "NR>=2 && NR<=5",
            "$3 > 5",
            "$3 > 5 {print $1}",
            "/foo/{c++} END{print c}",
            "{s+=$1} END {print s}",
            "BEGIN{FS=\":\"} $1==\"a\" || $2==\"b\"",
            "{if ($1 > 3) print $2}",
            "length($0) > 80",
            "!seen[$0]++",
            "{print $1 \"\\t\" $2}",
            "/a\\.b/",
        ] {
            assert!(only_prints(program), "{program}");
        }
        for program in [
            "BEGIN{system(\"x\")}",
            "{print > \"f\"}",
            "{print >> \"f\"}",
            "{print $1 > $2}",
            "{print | \"sh\"}",
            "BEGIN{\"x\" | getline}",
            "{printf \"a\" > \"f\"}",
            "BEGIN{getline x < \"f\"}",
            "@load \"x\"",
            "BEGIN{sys\\\ntem(\"x\")}",
            "{print |& \"x\"}",
            "{if (1) print 2 > \"f\"}",
            "{print \"a;b\" > \"f\"}",
            "{print($1)>\"f\"}",
            "BEGIN{print ENVIRON[\"X\"]}",
        ] {
            assert!(!only_prints(program), "{program}");
        }
    }
}
