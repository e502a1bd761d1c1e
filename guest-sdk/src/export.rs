//! Making a type the plugin of its crate.

/// Makes a [`Plugin`](crate::Plugin) what this crate exports: `tidegate_guest::export!(Settlement);`. Once per crate.
///
/// It only does something when compiling to WebAssembly; natively the plugin is plain Rust.
#[macro_export]
macro_rules! export {
    ($plugin:ty) => {
        const _: () = {
            // Natively too, so that a type that is no plugin is found by `cargo check`.
            const fn is_a_plugin<P: $crate::Plugin>() {}
            is_a_plugin::<$plugin>();
        };

        #[cfg(target_arch = "wasm32")]
        mod __tidegate_export {
            #[allow(unused_imports, reason = "the plugin may stand in scope, or under a path")]
            use super::*;

            ::std::thread_local! {
                static SESSION: ::std::cell::RefCell<::std::option::Option<$crate::session::Session<$plugin>>> =
                    const { ::std::cell::RefCell::new(::std::option::Option::None) };
            }

            struct Exported;

            impl $crate::bindings::exports::tidegate::plugin::processor::Guest for Exported {
                fn describe() -> ::std::string::String {
                    <$plugin as $crate::Plugin>::describe().to_json()
                }

                fn configure(settings: ::std::string::String) -> ::std::result::Result<(), ::std::string::String> {
                    let session = $crate::session::Session::<$plugin>::configure(&settings)?;
                    SESSION.set(::std::option::Option::Some(session));
                    ::std::result::Result::Ok(())
                }

                fn extract_keys(
                    batch: ::std::vec::Vec<$crate::Message>,
                ) -> ::std::vec::Vec<$crate::bindings::tidegate::plugin::types::KeyResult> {
                    SESSION.with_borrow_mut(|session| {
                        session.as_mut().expect("configure comes before extract-keys").extract_keys(&batch)
                    })
                }

                fn compute(
                    accepted: ::std::vec::Vec<$crate::bindings::tidegate::plugin::types::Accepted>,
                ) -> $crate::bindings::tidegate::plugin::types::Computed {
                    SESSION.with_borrow_mut(|session| {
                        session.as_mut().expect("configure comes before compute").compute(&accepted)
                    })
                }
            }

            $crate::bindings::export_processor!(Exported with_types_in $crate::bindings);
        }
    };
}
