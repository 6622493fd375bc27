//! A book with a slow disk or a held lock delays only the calls that need it, also when many calls wait for answers from it.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, SystemTime};

use futures_util::future::join_all;
use serde_json::json;
use windlass_core::{
    Answer, AnswerError, Approval, BookError, EffectKinds, Effects, EventAttendant, Inquiry as _,
    InquiryBook, MemoryBook, Mode, Outcome, Policy, Scope, ToolCall, WaitGuard,
};

use crate::support::{Setup, call, echo, path_of, says};

/// A book whose changes wait while a simulated other process holds its lock.
#[derive(Default)]
struct LockedBook {
    book: MemoryBook<Approval>,
    is_taken: Mutex<bool>,
    unlocked: Condvar,
    /// Number of times that all records were read.
    lists: AtomicUsize,
}

impl LockedBook {
    /// Takes the lock, as another process would.
    fn lock(&self) {
        *self.is_taken.lock().unwrap() = true;
    }

    /// Releases the lock.
    fn unlock(&self) {
        *self.is_taken.lock().unwrap() = false;
        self.unlocked.notify_all();
    }

    /// Waits until the lock is free, and returns the book.
    fn wait_for_lock(&self) -> &MemoryBook<Approval> {
        let is_taken = self.is_taken.lock().unwrap();
        drop(self.unlocked.wait_while(is_taken, |is_taken| *is_taken).unwrap());
        &self.book
    }
}

impl InquiryBook<Approval> for LockedBook {
    fn list(&self) -> Result<Vec<Approval>, BookError> {
        self.lists.fetch_add(1, Ordering::SeqCst);
        self.book.list()
    }
    fn put(&self, record: &Approval) -> Result<(), BookError> {
        self.wait_for_lock().put(record)
    }
    fn write_answer(
        &self,
        id: &str,
        answer: Answer,
        now: SystemTime,
    ) -> Result<Approval, AnswerError> {
        self.wait_for_lock().write_answer(id, answer, now)
    }
    fn take(&self, id: &str) -> Result<Option<Approval>, BookError> {
        self.wait_for_lock().take(id)
    }
    fn version(&self) -> u64 {
        InquiryBook::<Approval>::version(&self.book)
    }
    fn hold(&self, id: &str) -> Result<WaitGuard, BookError> {
        self.book.hold(id)
    }
    fn is_held(&self, id: &str) -> Result<bool, BookError> {
        self.book.is_held(id)
    }
}

/// Makes an engine with the tools `write`, which asks, and `look`, which does not, and a listener that waits for answers.
fn setup(book: &Arc<LockedBook>) -> Setup {
    let write =
        echo("write").with_effects(EffectKinds::WRITE, |input| Effects::write(path_of(input)));
    Setup::with([write, says("look", "seen")], |builder| {
        let builder = builder.policy(Policy::new(Mode::Ask)).approval_book(book.clone());
        builder.attendant(EventAttendant::default())
    })
}

fn write(path: &str) -> ToolCall {
    ToolCall::new("write", json!({"path": path}))
}

#[tokio::test]
async fn locked_book_delays_only_calls_that_change_it() {
    let book = Arc::new(LockedBook::default());
    let mut setup = setup(&book);
    let remembered = setup.spawn(write("remembered"));
    let id = setup.asked().await.id.clone();
    setup.engine.answer(&id, Answer::allow_for(Scope::Always)).await.unwrap();
    assert_eq!(remembered.await.unwrap().outcome, Outcome::Ok);

    book.lock();
    let waits = setup.spawn(write("a"));
    tokio::task::yield_now().await;
    for _ in 0..10 {
        assert_eq!(setup.call("look", json!({})).await.output.to_text(), "seen");
    }
    let again = setup.engine.call(&setup.session, write("remembered")).await;
    assert_eq!(again.outcome, Outcome::Ok, "a remembered answer is only read");
    assert_eq!(setup.engine.approvals().await.unwrap().len(), 1, "so is the list");
    assert!(!waits.is_finished(), "its question is not on record yet");
    book.unlock();
    let id = setup.asked().await.id.clone();
    setup.engine.answer(&id, Answer::allow()).await.unwrap();
    assert_eq!(waits.await.unwrap().outcome, Outcome::Ok);
}

#[tokio::test]
async fn stopped_call_does_not_wait_for_a_locked_book() {
    let book = Arc::new(LockedBook::default());
    let mut setup = setup(&book);
    let waits = setup.spawn(write("a"));
    let request = setup.asked().await;
    book.lock();
    setup.engine.cancel(&request.call);
    assert_eq!(waits.await.unwrap().outcome, Outcome::Cancelled);
    assert_eq!(book.list().unwrap().len(), 1, "the question cannot be withdrawn yet");
    book.unlock();
    let late = setup.engine.answer(&request.id, Answer::allow()).await;
    assert_eq!(late, Err(AnswerError::Unknown), "it is withdrawn before any other change");
}

/// A call whose future is dropped withdraws its question in the background, after the changes queued before.
#[tokio::test]
async fn dropped_call_withdraws_its_question() {
    let book = Arc::new(LockedBook::default());
    let mut setup = setup(&book);
    let waits = setup.spawn(write("a"));
    let id = setup.asked().await.id.clone();
    waits.abort();
    assert!(waits.await.unwrap_err().is_cancelled());
    assert_eq!(setup.engine.answer(&id, Answer::allow()).await, Err(AnswerError::Unknown));
    assert!(book.list().unwrap().is_empty() && !book.is_held(id.as_str()).unwrap());
}

/// The answers come through the book alone, as from another process.
#[tokio::test(start_paused = true)]
async fn many_waiting_questions_cost_no_more_reads_than_one() {
    const QUESTIONS: usize = 300;
    let book = Arc::new(LockedBook::default());
    let mut setup = setup(&book);
    let waiting: Vec<_> =
        (0..QUESTIONS).map(|number| setup.spawn(write(&number.to_string()))).collect();
    for _ in 0..QUESTIONS {
        setup.asked().await;
    }
    // Waits for the first read after the last question was asked.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let before = book.lists.load(Ordering::SeqCst);
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert_eq!(book.lists.load(Ordering::SeqCst), before, "nothing has changed");

    let all = book.list().unwrap();
    let now = all[0].asked();
    book.write_answer(all[0].id(), Answer::allow(), now).unwrap();
    let before = book.lists.load(Ordering::SeqCst);
    let is_done = || waiting.iter().filter(|call| call.is_finished()).count() == 1;
    while !is_done() {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let reads = book.lists.load(Ordering::SeqCst) - before;
    assert!(reads < 10, "one answer wakes one call: {reads} reads");
    for one in &all[1..] {
        book.write_answer(one.id(), Answer::allow(), now).unwrap();
    }
    let results = join_all(waiting).await;
    assert!(results.into_iter().all(|result| result.unwrap().outcome == Outcome::Ok));
    assert!(book.list().unwrap().is_empty());
    assert_eq!(setup.engine.call(&setup.session, call("look")).await.outcome, Outcome::Ok);
}
