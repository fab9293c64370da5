//! The REST endpoint as an OpenAPI 3.1 document (<https://spec.openapis.org/oas/v3.1.0>), made of the signatures that serve.

mod described;
mod examples;
mod paths;
mod schema;
mod text;

pub use crate::openapi::described::{DescribedModel, DescribedVersion};
use crate::openapi::paths::Described;
use crate::openapi::text::{encoded, quoted};

/// What is there whatever models serve, and the schemas that all models share.
const PATHS: &str = include_str!("paths.json");
const COMPONENTS: &str = include_str!("components.json");

const SECURITY: &str = "\"security\":[{\"token\":[]}],";
const SCHEMES: &str = "\"securitySchemes\":{\"token\":{\"type\":\"http\",\"scheme\":\"bearer\"}},";

/// The document. `secured` says that requests need a token.
pub fn to_json(server_version: &str, models: &[DescribedModel<'_>], secured: bool) -> Vec<u8> {
    let (mut paths, mut schemas) = (vec![members(PATHS).to_owned()], vec![members(COMPONENTS).to_owned()]);
    for model in models {
        for version in &model.versions {
            let described = Described::new(model.name, version);
            let numbered = std::iter::once(format!("/versions/{}", version.number));
            let labelled = version.labels.iter().map(|label| format!("/labels/{}", encoded(label)));
            if model.default == Some(version.number) {
                paths.extend(described.paths("", " by default"));
            }
            numbered.chain(labelled).for_each(|place| paths.extend(described.paths(&place, "")));
            schemas.extend(described.components());
        }
    }
    let (security, schemes) = if secured { (SECURITY, SCHEMES) } else { ("", "") };
    let title = "\"title\":\"Tidegate: TensorFlow Serving's REST API, the Open Inference Protocol, and plain objects\"";
    let version = quoted(server_version);
    let (paths, schemas) = (paths.join(","), schemas.join(","));
    let document = format!(
        "{{\"openapi\":\"3.1.0\",\"info\":{{{title},\"version\":{version}}},\"servers\":[{{\"url\":\"/\"}}],{security}\
         \"paths\":{{{paths}}},\"components\":{{{schemes}\"schemas\":{{{schemas}}},\"responses\":{{\"Error\":\
         {{\"description\":\"What is wrong, and what to do\",\"content\":{{\"application/json\":{{\"schema\":\
         {{\"$ref\":\"#/components/schemas/Error\"}}}}}}}}}}}}}}\n"
    );
    document.into_bytes()
}

/// What stands between the braces of a JSON object.
fn members(object: &str) -> &str {
    let inner = object.trim().strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
    inner.unwrap_or_default().trim()
}
