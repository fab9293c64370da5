//! The REST endpoint as an OpenAPI 3.1 document (<https://spec.openapis.org/oas/v3.1.0>), made of the signatures that serve.

mod schema;

use crate::json::text::write_text;
use crate::model_spec::DEFAULT_SIGNATURE;
use crate::signatures::Signature;

/// A model as the document tells of it.
#[derive(Debug)]
pub struct DescribedModel<'a> {
    /// Its name.
    pub name: &'a str,
    /// The version that answers those who name none.
    pub version: i64,
    /// How it can be called.
    pub signatures: Vec<&'a Signature>,
}

/// The document. `secured` says that requests need a token.
pub fn to_json(server_version: &str, models: &[DescribedModel<'_>], secured: bool) -> Vec<u8> {
    let mut paths: Vec<String> = FIXED.map(str::to_owned).into();
    models.iter().for_each(|model| paths.extend(of_model(model)));
    let schemas: String = models.iter().flat_map(document_schemas).map(|schema| format!(",{schema}")).collect();
    let security = if secured { SECURITY } else { "" };
    let schemes = if secured { SCHEMES } else { "" };
    let title = "\"title\":\"Tidegate: TensorFlow Serving's REST API, the Open Inference Protocol, and plain objects\"";
    let version = quoted(server_version);
    let paths = paths.join(",");
    let document = format!(
        "{{\"openapi\":\"3.1.0\",\"info\":{{{title},\"version\":{version}}},\"servers\":[{{\"url\":\"/\"}}],{security}\
         \"paths\":{{{paths}}},\"components\":{{{schemes}\"schemas\":{{\"Error\":{ERROR},\"Errors\":{ERRORS}{schemas}}},\"responses\":{{\"Error\":\
         {{\"description\":\"What is wrong, and what to do\",\"content\":{{\"application/json\":{{\"schema\":\
         {{\"$ref\":\"#/components/schemas/Error\"}}}}}}}}}}}}}}\n"
    );
    document.into_bytes()
}

const ERROR: &str = "{\"type\":\"object\",\"properties\":{\"error\":{\"type\":\"string\"}},\"required\":[\"error\"]}";
const ERRORS: &str = "{\"type\":\"object\",\"properties\":{\"error\":{\"type\":\"string\"},\"errors\":{\"type\":\"array\",\
    \"items\":{\"type\":\"object\",\"properties\":{\"type\":{\"type\":\"string\"},\"loc\":{\"type\":\"array\",\"items\":\
    {\"type\":[\"string\",\"integer\"]}},\"msg\":{\"type\":\"string\"},\"input\":true},\"required\":[\"type\",\"loc\",\"msg\"]}}},\
    \"required\":[\"error\",\"errors\"]}";
const EVENTS: &str = "{\"type\":\"string\",\"description\":\"Server-sent events: one with JSON as its data for each message, in \
    the form of a whole answer, then one of type end, or of type error\"}";
const SECURITY: &str = "\"security\":[{\"token\":[]}],";
const SCHEMES: &str = "\"securitySchemes\":{\"token\":{\"type\":\"http\",\"scheme\":\"bearer\"}},";

/// What is there whatever models serve.
const FIXED: [&str; 5] = [
    "\"/\":{\"get\":{\"summary\":\"Whether the process answers, as KServe's servers say it\",\"security\":[],\
     \"responses\":{\"200\":{\"description\":\"It does\",\"content\":{\"application/json\":{\"schema\":{\"type\":\"object\",\
     \"properties\":{\"status\":{\"const\":\"alive\"}},\"required\":[\"status\"]}}}}}}}",
    "\"/v2/health/live\":{\"get\":{\"summary\":\"Whether the process answers\",\"security\":[],\"responses\":{\"200\":\
     {\"description\":\"It does\",\"content\":{\"application/json\":{\"schema\":{\"type\":\"object\",\"properties\":\
     {\"live\":{\"const\":true}},\"required\":[\"live\"]}}}}}}}",
    "\"/v2/health/ready\":{\"get\":{\"summary\":\"Whether requests should come\",\"security\":[],\"responses\":{\"200\":\
     {\"description\":\"They should\",\"content\":{\"application/json\":{\"schema\":{\"type\":\"object\",\"properties\":\
     {\"ready\":{\"const\":true},\"reason\":{\"type\":\"string\"}},\"required\":[\"ready\"]}}}},\"503\":\
     {\"description\":\"Not now, and why\",\"content\":{\"application/json\":{\"schema\":{\"type\":\"object\",\"properties\":\
     {\"ready\":{\"const\":false},\"error\":{\"type\":\"string\"}},\"required\":[\"ready\"]}}}}}}}",
    "\"/v2\":{\"get\":{\"summary\":\"Name, version and extensions of the server\",\"responses\":{\"200\":\
     {\"description\":\"These\",\"content\":{\"application/json\":{\"schema\":{\"type\":\"object\"}}}}}}}",
    "\"/metrics\":{\"get\":{\"summary\":\"Metrics in Prometheus' text format\",\"responses\":{\"200\":{\"description\":\
     \"These\",\"content\":{\"text/plain\":{\"schema\":{\"type\":\"string\"}}}}}}}",
];

fn of_model(model: &DescribedModel<'_>) -> Vec<String> {
    let name = encoded(model.name);
    let about = |what: &str| quoted(&format!("{what} of model {}, version {} by default", model.name, model.version));
    let get = |path: String, what: &str| {
        let ok = answer("{\"type\":\"object\"}");
        format!("{}:{{\"get\":{{\"summary\":{},{ok}}}}}", quoted(&path), about(what))
    };
    let post = |path: String, what: &str, request: &str, response: &str| {
        let (path, what, ok) = (quoted(&path), about(what), answers(&model.signatures, response, &[JSON], ""));
        let body = format!("{{\"required\":true,\"content\":{{\"application/json\":{{\"schema\":{request}}}}}}}");
        format!("{path}:{{\"post\":{{\"summary\":{what},\"requestBody\":{body},{ok}}}}}")
    };
    let any = |schemas: Vec<String>| format!("{{\"anyOf\":[{}]}}", schemas.join(","));
    let predicts = any(model.signatures.iter().flat_map(|signature| schema::predict_requests(signature)).collect());
    let predicted = any(model.signatures.iter().flat_map(|signature| schema::predict_answers(signature)).collect());
    let only = model.signatures.len() == 1;
    let infers = any(model.signatures.iter().map(|signature| schema::infer_request(signature, only)).collect());
    let mut paths = vec![
        get(format!("/v1/models/{name}"), "States of the versions"),
        get(format!("/v1/models/{name}/metadata"), "Signatures"),
        post(format!("/v1/models/{name}:predict"), "Predictions", &predicts, &predicted),
        get(format!("/v2/models/{name}"), "Tensors"),
        post(format!("/v2/models/{name}/infer"), "Predictions", &infers, schema::INFER_ANSWER),
    ];
    paths.extend(model.plain().map(|signature| {
        let (request, response) = plain_schemas(model, signature);
        let wrong = if signature.schema.is_some() { UNPROCESSABLE } else { "" };
        let (body, ok) = (content(&PLAIN, &request), answers(&[signature], &response, &PLAIN, wrong));
        let (path, what) = (quoted(&format!("/inference/{name}")), about("A plain object's prediction"));
        let body = format!("{{\"required\":true,\"content\":{{{body}}}}}");
        format!("{path}:{{\"post\":{{\"summary\":{what},\"requestBody\":{body},{ok}}}}}")
    }));
    paths
}

const JSON: &str = "application/json";
const PLAIN: [&str; 2] = [JSON, "application/msgpack"];
const UNPROCESSABLE: &str = "\"422\":{\"description\":\"Where the document does not fit its schema\",\"content\":\
    {\"application/json\":{\"schema\":{\"$ref\":\"#/components/schemas/Errors\"}}}},";

impl DescribedModel<'_> {
    /// The signature that plain objects are for: the default, or the only one.
    fn plain(&self) -> Option<&Signature> {
        let default = self.signatures.iter().find(|signature| signature.name == DEFAULT_SIGNATURE);
        default.or(self.signatures.first().filter(|_| self.signatures.len() == 1)).copied()
    }
}

/// Request and answer: a schema of documents stands among the components, where its definitions can be referred to.
fn plain_schemas(model: &DescribedModel<'_>, signature: &Signature) -> (String, String) {
    if signature.schema.is_none() {
        return (schema::plain_request(signature), schema::plain_answer(signature));
    }
    let found = |what: &str| format!("{{\"$ref\":\"#/components/schemas/{}\"}}", component(model.name, what));
    (found("request"), found("response"))
}

/// The schemas of a model's documents by name.
fn document_schemas(model: &DescribedModel<'_>) -> Vec<String> {
    let Some(signature) = model.plain().filter(|signature| signature.schema.is_some()) else { return Vec::new() };
    let named = |what: &str, schema: String| {
        let name = component(model.name, what);
        let schema = schema.replace("\"#/$defs/", &format!("\"#/components/schemas/{name}/$defs/"));
        format!("\"{name}\":{schema}")
    };
    vec![named("request", schema::plain_request(signature)), named("response", schema::plain_answer(signature))]
}

/// The name of a schema, in which only letters, digits and `.-_` may stand.
fn component(model: &str, what: &str) -> String {
    format!("{}.{what}", encoded(model).replace(['%', '~'], "_"))
}

fn content(kinds: &[&str], schema: &str) -> String {
    let kinds: Vec<String> = kinds.iter().map(|kind| format!("\"{kind}\":{{\"schema\":{schema}}}")).collect();
    kinds.join(",")
}

/// Answers of signatures that answer once, that stream, or both.
fn answers(signatures: &[&Signature], schema: &str, kinds: &[&str], wrong: &str) -> String {
    let streams = signatures.iter().filter(|signature| signature.streaming).count();
    let mut contents = Vec::new();
    if streams < signatures.len() {
        contents.push(content(kinds, schema));
    }
    if streams > 0 {
        contents.push(content(&["text/event-stream"], EVENTS));
    }
    responses(&contents.join(","), wrong)
}

fn answer(schema: &str) -> String {
    responses(&content(&[JSON], schema), "")
}

fn responses(contents: &str, wrong: &str) -> String {
    format!(
        "\"responses\":{{\"200\":{{\"description\":\"The answer\",\"content\":{{{contents}}}}},{wrong}\"default\":\
         {{\"$ref\":\"#/components/responses/Error\"}}}}"
    )
}

/// A JSON string.
fn quoted(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len() + 2);
    write_text(&mut out, text);
    String::from_utf8(out).unwrap_or_default()
}

/// As it stands in a path.
fn encoded(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for byte in name.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => out.push(char::from(byte)),
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}
