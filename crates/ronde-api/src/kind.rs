//! What makes a struct a kind: its names, its metadata, and its form with `apiVersion` and `kind` in front.

/// Makes a kind of the given fields. `kube::Api` takes it as it takes the built-in ones.
macro_rules! kind {
    (
        $(#[$doc:meta])*
        $name:ident: $scope:ident $plural:literal in $group:literal / $version:literal {
            $($(#[$attribute:meta])* $field:ident: $type:ty,)+
        }
    ) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Default, PartialEq)]
        pub struct $name {
            pub metadata: k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta,
            $(pub $field: $type,)+
        }

        impl k8s_openapi::Resource for $name {
            const API_VERSION: &'static str = concat!($group, "/", $version);
            const GROUP: &'static str = $group;
            const KIND: &'static str = stringify!($name);
            const VERSION: &'static str = $version;
            const URL_PATH_SEGMENT: &'static str = $plural;
            type Scope = k8s_openapi::$scope;
        }

        impl k8s_openapi::Metadata for $name {
            type Ty = k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

            fn metadata(&self) -> &Self::Ty {
                &self.metadata
            }

            fn metadata_mut(&mut self) -> &mut Self::Ty {
                &mut self.metadata
            }
        }

        const _: () = {
            use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

            #[derive(serde::Serialize)]
            #[serde(rename_all = "camelCase")]
            struct Written<'a> {
                api_version: &'static str,
                kind: &'static str,
                metadata: &'a ObjectMeta,
                $($(#[$attribute])* $field: &'a $type,)+
            }

            #[derive(serde::Deserialize)]
            #[serde(rename_all = "camelCase")]
            struct Read {
                #[serde(default)]
                metadata: ObjectMeta,
                $($(#[$attribute])* $field: $type,)+
            }

            impl serde::Serialize for $name {
                fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                    let written = Written {
                        api_version: <Self as k8s_openapi::Resource>::API_VERSION,
                        kind: <Self as k8s_openapi::Resource>::KIND,
                        metadata: &self.metadata,
                        $($field: &self.$field,)+
                    };
                    serde::Serialize::serialize(&written, serializer)
                }
            }

            impl<'de> serde::Deserialize<'de> for $name {
                fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                    let read = <Read as serde::Deserialize>::deserialize(deserializer)?;
                    Ok(Self { metadata: read.metadata, $($field: read.$field,)+ })
                }
            }
        };
    };
}
