//! The answer of a journal to a record: it is safe, and this is its number.

use std::fmt;
use std::sync::Arc;

use crate::BoxFuture;

/// Says that a record is safe. It also gives the number of the record, for those who ask.
///
/// A journal may number its records later than it makes them safe. Finding out a number may then cost something, so it is done
/// only for those who ask.
///
/// ```
/// use windlass_core::Receipt;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// assert_eq!(Receipt::numbered(7).number().await, Some(7));
/// assert_eq!(Receipt::later(|| Box::pin(async { Some(8) })).number().await, Some(8));
/// assert_eq!(Receipt::unnumbered().number().await, None);
/// # }
/// ```
#[derive(Clone)]
pub struct Receipt(Numbering);

#[derive(Clone)]
enum Numbering {
    Known(Option<u64>),
    Later(Arc<dyn Fn() -> BoxFuture<'static, Option<u64>> + Send + Sync>),
}

impl Receipt {
    /// The receipt of a record with this number.
    pub fn numbered(number: u64) -> Self {
        Self(Numbering::Known(Some(number)))
    }

    /// The receipt of a journal that does not number its records.
    pub fn unnumbered() -> Self {
        Self(Numbering::Known(None))
    }

    /// The receipt of a record whose number has to be found out. `find` resolves to `None` if that fails.
    pub fn later(
        find: impl Fn() -> BoxFuture<'static, Option<u64>> + Send + Sync + 'static,
    ) -> Self {
        Self(Numbering::Later(Arc::new(find)))
    }

    /// Returns the number under which the journal shows the record.
    pub fn number(self) -> BoxFuture<'static, Option<u64>> {
        match self.0 {
            Numbering::Known(number) => Box::pin(std::future::ready(number)),
            Numbering::Later(find) => find(),
        }
    }
}

impl fmt::Debug for Receipt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Numbering::Known(number) => f.debug_tuple("Receipt").field(number).finish(),
            Numbering::Later(_) => f.write_str("Receipt(..)"),
        }
    }
}
