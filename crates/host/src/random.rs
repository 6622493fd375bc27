//! Randomness from the kernel: for names that nobody can foresee, and for ids.

use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use rustix::io::Errno;
use rustix::rand::{GetRandomFlags, getrandom};
use windlass_core::{IdSource, id_number};

/// How many ids one call of the kernel serves.
const IDS_AT_ONCE: usize = 32;

/// The bytes of randomness in an id: 40 bits.
const BYTES_PER_ID: usize = 5;

/// Ids that no other process and no other moment will give: the time and 40 random bits.
///
/// ```
/// use windlass_core::IdSource;
/// let ids = windlass_host::RandomIds::default();
/// assert_ne!(ids.next(), ids.next());
/// ```
#[derive(Debug, Default)]
pub struct RandomIds(Mutex<Vec<u8>>);

impl IdSource for RandomIds {
    fn next(&self) -> u128 {
        id_number(SystemTime::now(), self.random())
    }
}

impl RandomIds {
    fn random(&self) -> u64 {
        let mut pool = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if pool.len() < BYTES_PER_ID {
            let mut fresh = [0; IDS_AT_ONCE * BYTES_PER_ID];
            // An id has to be unique, not secret: where the kernel has no randomness to give, the hasher's seed must do.
            if fill(&mut fresh).is_err() {
                return RandomState::new().hash_one(SystemTime::now());
            }
            pool.extend_from_slice(&fresh);
        }
        let rest = pool.len().saturating_sub(BYTES_PER_ID);
        pool.drain(rest..).fold(0, |number, byte| (number << 8) | u64::from(byte))
    }
}

/// A name that nobody can foresee.
pub(crate) fn name() -> Result<String, Errno> {
    Ok(format!("{:016x}", number()?))
}

/// A random number.
pub(crate) fn number() -> Result<u64, Errno> {
    let mut bytes = [0; 8];
    fill(&mut bytes)?;
    Ok(u64::from_ne_bytes(bytes))
}

/// Fills with randomness, in one call if the kernel is not interrupted.
fn fill(bytes: &mut [u8]) -> Result<(), Errno> {
    let mut filled = 0;
    while let Some(rest) = bytes.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match getrandom(rest, GetRandomFlags::empty()) {
            Ok(more) => filled += more,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}
