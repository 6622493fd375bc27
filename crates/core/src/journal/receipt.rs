//! The receipt of a journal for a record: the record is safe, and has this number.

use std::fmt;
use std::sync::Arc;

use crate::BoxFuture;

/// Confirms that a record is safe. Gives the number of the record to a caller that asks for it.
///
/// A journal may number its records later than it makes them safe. To find a number may then cost something, so it is done only on
/// request.
///
/// ```
/// use windlass_core::RecordReceipt;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// assert_eq!(RecordReceipt::numbered(7).number().await, Some(7));
/// assert_eq!(RecordReceipt::later(|| Box::pin(async { Some(8) })).number().await, Some(8));
/// assert_eq!(RecordReceipt::unnumbered().number().await, None);
/// # }
/// ```
#[derive(Clone)]
pub struct RecordReceipt(Numbering);

/// The number of a record, known or to be found.
#[derive(Clone)]
enum Numbering {
    Known(Option<u64>),
    Later(Arc<dyn Fn() -> BoxFuture<'static, Option<u64>> + Send + Sync>),
}

impl RecordReceipt {
    /// Makes the receipt of a record with this number.
    pub fn numbered(number: u64) -> Self {
        Self(Numbering::Known(Some(number)))
    }

    /// Makes the receipt of a journal that does not number its records.
    pub fn unnumbered() -> Self {
        Self(Numbering::Known(None))
    }

    /// Makes the receipt of a record whose number `find` finds when it is needed. `find` resolves to `None` if it cannot find it.
    pub fn later(
        find: impl Fn() -> BoxFuture<'static, Option<u64>> + Send + Sync + 'static,
    ) -> Self {
        Self(Numbering::Later(Arc::new(find)))
    }

    /// Returns the number of the record in the journal, or `None` if it has none or it cannot be found.
    pub fn number(self) -> BoxFuture<'static, Option<u64>> {
        match self.0 {
            Numbering::Known(number) => Box::pin(std::future::ready(number)),
            Numbering::Later(find) => find(),
        }
    }
}

impl fmt::Debug for RecordReceipt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Numbering::Known(number) => f.debug_tuple("Receipt").field(number).finish(),
            Numbering::Later(_) => f.write_str("Receipt(..)"),
        }
    }
}
