//! Writes the definitions of all kinds to `crds/`, one file each; `make generate` runs it.

use std::{error::Error, path::Path};

fn main() -> Result<(), Box<dyn Error>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("crds");
    for definition in ronde_api::crd::all() {
        let text = ronde_api::crd::HEAD.to_owned() + &serde_saphyr::to_string(&definition)?;
        fs_err::write(folder.join(format!("{}.yaml", ronde_api::crd::name(&definition))), text)?;
    }
    Ok(())
}
