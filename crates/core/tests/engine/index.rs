//! The door to full-text search.

use std::sync::{Arc, Mutex};

use serde_json::json;
use windlass_core::testing::MockTool;
use windlass_core::{
    Document, EffectKinds, Effects, IndexedDocuments, Outcome, Output, Passage, Secrets, TextIndex,
    ToolError,
};

use crate::support::Setup;

/// An index that stores all documents, and finds all of them.
#[derive(Default)]
struct FindAllIndex(Mutex<Vec<(String, Document)>>);

impl TextIndex for FindAllIndex {
    fn indexed(&self, _: &str) -> Result<IndexedDocuments, ToolError> {
        Ok(IndexedDocuments::default())
    }

    fn put(&self, store: &str, documents: &[Document]) -> Result<(), ToolError> {
        let named = documents.iter().map(|document| (store.to_owned(), document.clone()));
        self.0.lock().unwrap().extend(named);
        Ok(())
    }

    fn remove(&self, _: &str, _: &[String]) -> Result<(), ToolError> {
        Ok(())
    }

    fn search(&self, store: &str, _: &str, _: usize) -> Result<Vec<Passage>, ToolError> {
        let kept = self.0.lock().unwrap();
        let of_store = kept.iter().filter(|(name, _)| name == store);
        let passage = |(_, one): &(String, Document)| Passage {
            document: one.id.clone(),
            title: one.title.clone(),
            line: 1,
            text: one.text.clone(),
            score: 1.0,
        };
        Ok(of_store.map(passage).collect())
    }
}

/// A tool that declares the index `manual`, adds a document to `store` and searches it.
fn gather() -> MockTool {
    MockTool::named("gather")
        .with_effects(EffectKinds::STATE, |_| Effects::state("index:manual"))
        .answering(|cx, input| async move {
            let index = cx.index(input["store"].as_str().unwrap_or_default())?;
            let (id, fingerprint) = ("a".to_owned(), "1".to_owned());
            let (title, text) = ("A".to_owned(), "it is 0451-0451".to_owned());
            index.put(&[Document { id, fingerprint, title, text }])?;
            Ok(Output::text(index.search("it", 5)?.remove(0).text))
        })
}

#[tokio::test]
async fn declared_store_takes_documents_without_their_secrets() {
    let setup = Setup::with([gather()], |builder| {
        let secrets = Secrets::new([("PIN", "0451-0451")]);
        builder.text_index(Arc::new(FindAllIndex::default())).secrets(secrets)
    });
    let result = setup.call("gather", json!({"store": "manual"})).await;
    assert_eq!(result.output.to_text(), "it is [secret PIN]");
    let result = setup.call("gather", json!({"store": "other"})).await;
    assert_eq!((result.outcome, result.code), (Outcome::Fault, Some("undeclared_effect")));
}

#[tokio::test]
async fn missing_index_is_an_error_of_the_host() {
    let result = Setup::of([gather()]).call("gather", json!({"store": "manual"})).await;
    assert_eq!(result.code, Some("host_failed"), "{}", result.output.to_text());
}
