//! The built-in tools, one file each, in one table.

use windlass_core::AnyTool;

/// Every built-in tool, in the order in which models see them.
pub const BUILTIN: &[&dyn AnyTool] = &[];
