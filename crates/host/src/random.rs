//! Randomness from the kernel: for unpredictable names and for ids.

use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use rustix::io::Errno;
use rustix::rand::{GetRandomFlags, getrandom};
use windlass_core::{IdSource, id_number};

/// Ids that are served by one `getrandom` call.
const IDS_PER_CALL: usize = 32;

/// Random bytes in an id: 40 bits.
const BYTES_PER_ID: usize = 5;

/// Creates ids that are unique across processes and over time: each holds the time and 40 random bits.
#[derive(Debug, Default)]
pub struct RandomIds(Mutex<Vec<u8>>);

impl IdSource for RandomIds {
    fn next(&self) -> u128 {
        id_number(SystemTime::now(), self.random())
    }
}

impl RandomIds {
    /// Returns the random bits of one id.
    fn random(&self) -> u64 {
        let mut pool = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if pool.len() < BYTES_PER_ID {
            let mut fresh = [0; IDS_PER_CALL * BYTES_PER_ID];
            // An id has to be unique, not secret. If the kernel gives no randomness, the hasher's seed is good enough.
            if fill(&mut fresh).is_err() {
                return RandomState::new().hash_one(SystemTime::now());
            }
            pool.extend_from_slice(&fresh);
        }
        let rest = pool.len().saturating_sub(BYTES_PER_ID);
        pool.drain(rest..).fold(0, |number, byte| (number << 8) | u64::from(byte))
    }
}

/// Returns an unpredictable name: 16 hexadecimal digits.
pub(crate) fn name() -> Result<String, Errno> {
    Ok(format!("{:016x}", number()?))
}

/// Returns a random number.
pub(crate) fn number() -> Result<u64, Errno> {
    let mut bytes = [0; 8];
    fill(&mut bytes)?;
    Ok(u64::from_ne_bytes(bytes))
}

/// Fills the buffer with random bytes, in one call unless a signal interrupts it.
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
