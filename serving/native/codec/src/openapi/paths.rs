//! The paths of one version: by default, by its number, and by its labels, all with the same schemas.

use crate::inference::InferenceMethod;
use crate::open_inference::datatype;
use crate::openapi::described::DescribedVersion;
use crate::openapi::text::{encoded, quoted};
use crate::openapi::{examples, schema};
use crate::signatures::Signature;

const JSON: &str = "application/json";
const MSGPACK: &str = "application/msgpack";
const EVENTS: &str = "{\"type\":\"string\",\"description\":\"Server-sent events, for those who ask with Accept: \
    text/event-stream. Each has JSON as its data: one for each message, then one of type end, or of type error\"}";
const UNPROCESSABLE: &str = "\"422\":{\"description\":\"Where the document does not fit its schema\",\"content\":\
    {\"application/json\":{\"schema\":{\"$ref\":\"#/components/schemas/Errors\"}}}},";

const PREDICT: &str = "predict.request";
const PREDICTED: &str = "predict.response";
const INFER: &str = "infer.request";
const CLASSIFY: &str = "classify.request";
const REGRESS: &str = "regress.request";
const PLAIN: &str = "inference.request";
const PLAIN_ANSWER: &str = "inference.response";

/// A version with its schemas.
pub(super) struct Described<'a> {
    model: &'a str,
    version: &'a DescribedVersion<'a>,
    /// By what they are of.
    schemas: Vec<(&'static str, String)>,
}

impl<'a> Described<'a> {
    pub(super) fn new(model: &'a str, version: &'a DescribedVersion<'a>) -> Described<'a> {
        let mut described = Described { model, version, schemas: Vec::new() };
        let signatures = || version.signatures.iter().copied();
        let written = || signatures().filter(|signature| schema::is_written_in_json(signature));
        described.add_any(PREDICT, written().flat_map(schema::predict_requests));
        described.add_any(PREDICTED, written().flat_map(schema::predict_answers));
        let only = version.signatures.len() == 1;
        let spoken = signatures().filter(|signature| datatype::check(signature.needed_inputs()).is_ok());
        described.add_any(INFER, spoken.map(|signature| schema::infer_request(signature, only)));
        for (what, method) in [(CLASSIFY, InferenceMethod::Classify), (REGRESS, InferenceMethod::Regress)] {
            described.add_any(what, signatures().filter_map(|signature| examples::request(method, signature)));
        }
        if let Some(signature) = version.plain().filter(|signature| schema::is_written_plainly(signature)) {
            described.schemas.push((PLAIN, schema::plain_request(signature)));
            described.schemas.push((PLAIN_ANSWER, schema::plain_answer(signature)));
        }
        described
    }

    fn add_any(&mut self, what: &'static str, schemas: impl Iterator<Item = String>) {
        let schemas: Vec<String> = schemas.collect();
        if !schemas.is_empty() {
            self.schemas.push((what, format!("{{\"anyOf\":[{}]}}", schemas.join(","))));
        }
    }

    /// Its schemas by name. Those of documents may have definitions of their own, which are found where they stand now.
    pub(super) fn components(&self) -> Vec<String> {
        let named = |(what, schema): &(&str, String)| {
            let name = self.component(what);
            let schema = schema.replace("\"#/$defs/", &format!("\"#/components/schemas/{name}/$defs/"));
            format!("\"{name}\":{schema}")
        };
        self.schemas.iter().map(named).collect()
    }

    /// The name of a schema, in which only letters, digits and `.-_` may stand.
    fn component(&self, what: &str) -> String {
        format!("{}.{}.{what}", encoded(self.model).replace(['%', '~'], "_"), self.version.number)
    }

    /// The paths at one place, such as `/versions/3`.
    pub(super) fn paths(&self, place: &str, when: &str) -> Vec<String> {
        let name = encoded(self.model);
        let (v1, v2) = (format!("/v1/models/{name}{place}"), format!("/v2/models/{name}{place}"));
        let at = Place { described: self, when };
        let mut paths = vec![
            at.get(&v1, "States", "ModelStatus"),
            at.get(&format!("{v1}/metadata"), "Signatures", "ModelMetadata"),
            at.get(&v2, "Tensors", "InferMetadata"),
            at.get(&format!("{v2}/config"), "Configuration in Triton's form", "InferConfig"),
            at.get(&format!("{v2}/ready"), "Readiness", "ModelReady"),
            at.get(&format!("{v2}/stats"), "Statistics", "Statistics"),
        ];
        let signatures = &*self.version.signatures;
        let once = |answer: &str| content(&[JSON], &found(answer));
        let some = [
            (CLASSIFY, format!("{v1}:classify"), "Classes of examples", once("Classes")),
            (REGRESS, format!("{v1}:regress"), "Regression of examples", once("Regression")),
            (PREDICT, format!("{v1}:predict"), "Predictions", answers(signatures, &self.component(PREDICTED), &[JSON])),
            (INFER, format!("{v2}/infer"), "Predictions", answers(signatures, "InferAnswer", &[JSON])),
        ];
        let known = some.iter().filter(|(what, ..)| self.has(what));
        paths.extend(known.map(|(what, path, text, answers)| at.post(path, text, (what, &[JSON]), answers, "")));
        if let Some(signature) = self.version.plain().filter(|_| self.has(PLAIN)) {
            let kinds = [JSON, MSGPACK];
            let wrong = if signature.schema.is_some() { UNPROCESSABLE } else { "" };
            let (path, what) = (format!("/inference/{name}{place}"), "A plain object's prediction");
            let answers = answers(&[signature], &self.component(PLAIN_ANSWER), &kinds);
            paths.push(at.post(&path, what, (PLAIN, &kinds), &answers, wrong));
            if signature.schema.is_none() {
                paths.extend(at.generate(&v2, signature.streaming));
            }
        }
        paths
    }

    fn has(&self, what: &str) -> bool {
        self.schemas.iter().any(|(known, _)| *known == what)
    }
}

/// Where a version is asked.
struct Place<'a> {
    described: &'a Described<'a>,
    /// When it is this version that answers.
    when: &'a str,
}

impl Place<'_> {
    fn about(&self, what: &str) -> String {
        let Place { described, when } = self;
        quoted(&format!("{what} of model {}, version {}{when}", described.model, described.version.number))
    }

    fn get(&self, path: &str, what: &str, answer: &str) -> String {
        let (path, what) = (quoted(path), self.about(what));
        let ok = responses(&content(&[JSON], &found(answer)), "");
        format!("{path}:{{\"get\":{{\"summary\":{what},{ok}}}}}")
    }

    /// Triton's paths for plain objects: each sends one answer, or events, whatever the signature does.
    fn generate(&self, v2: &str, streaming: bool) -> Vec<String> {
        let (what, request) = ("A plain object's prediction, as in Triton", (PLAIN, &[JSON][..]));
        let once = content(&[JSON], &found("Generated"));
        let events = events(&found("Generated"), "");
        let mut paths = vec![self.post(&format!("{v2}/generate_stream"), what, request, &events, "")];
        if !streaming {
            paths.push(self.post(&format!("{v2}/generate"), what, request, &once, ""));
        }
        paths
    }

    fn post(&self, path: &str, what: &str, (request, kinds): (&str, &[&str]), answers: &str, wrong: &str) -> String {
        let (path, what, ok) = (quoted(path), self.about(what), responses(answers, wrong));
        let body = content(kinds, &found(&self.described.component(request)));
        let body = format!("{{\"required\":true,\"content\":{{{body}}}}}");
        format!("{path}:{{\"post\":{{\"summary\":{what},\"requestBody\":{body},{ok}}}}}")
    }
}

fn found(schema: &str) -> String {
    format!("{{\"$ref\":\"#/components/schemas/{schema}\"}}")
}

fn content(kinds: &[&str], schema: &str) -> String {
    let kinds: Vec<String> = kinds.iter().map(|kind| format!("\"{kind}\":{{\"schema\":{schema}}}")).collect();
    kinds.join(",")
}

/// Answers of signatures that answer once, that stream, or both.
fn answers(signatures: &[&Signature], answer: &str, kinds: &[&str]) -> String {
    let streams = signatures.iter().filter(|signature| signature.streaming).count();
    let (mut contents, answer) = (Vec::new(), found(answer));
    if streams < signatures.len() {
        contents.push(content(kinds, &answer));
    }
    if streams > 0 {
        contents.push(events(&answer, &format!("\"end\":{},", found("End"))));
    }
    contents.join(",")
}

fn events(message: &str, end: &str) -> String {
    let data = format!("{{\"message\":{message},{end}\"error\":{}}}", found("Error"));
    format!("\"text/event-stream\":{{\"schema\":{EVENTS},\"x-event-data\":{data}}}")
}

fn responses(contents: &str, wrong: &str) -> String {
    format!(
        "\"responses\":{{\"200\":{{\"description\":\"The answer\",\"content\":{{{contents}}}}},{wrong}\"default\":\
         {{\"$ref\":\"#/components/responses/Error\"}}}}"
    )
}
