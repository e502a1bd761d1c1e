//! What every store must do, run on each of them.

mod chain;
mod crash_points;
mod duplicates;
mod extremes;
mod fixture;
mod injection;
mod keys;
mod lost_commit;
mod poison;
mod property;
mod reports;
mod rivals;
mod seeks;
mod transitions;
mod values;

/// Each case on each dialect.
macro_rules! conformance {
    ($($module:ident: $($case:ident),+ $(,)?;)+) => {
        mod on_sqlite {
            $($(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $case() {
                    let fixture = super::fixture::sqlite().await;
                    super::$module::$case(&fixture).await;
                    fixture.prove().await;
                }
            )+)+
        }

        mod on_postgres {
            $($(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $case() {
                    let fixture = super::fixture::postgres().await;
                    super::$module::$case(&fixture).await;
                    fixture.prove().await;
                }
            )+)+
        }
    };
}

conformance! {
    duplicates:
        the_same_id_twice_is_applied_once,
        two_consumers_process_the_same_event,
        two_connections_at_once_apply_an_id_once,
        another_payload_is_kept_and_counted,
        known_ids_are_duplicates_whatever_the_plugin_says,
        attempts_are_capped_and_the_rest_is_counted,
        an_input_from_before_the_horizon_is_never_first,
        too_old_inputs_may_be_only_counted;
    chain:
        one_of_two_sessions_extends_a_link,
        a_move_fences_the_zombie,
        a_link_begins_where_its_predecessor_ends,
        a_genesis_is_made_once,
        nobody_unregistered_gets_a_chain,
        another_key_version_commits_nothing,
        gaps_and_empty_runs_tile,
        a_hole_is_found;
    seeks:
        a_seek_moves_all_chains_or_none,
        a_seek_begins_a_chain_once;
    keys:
        samples_come_back_as_they_were,
        an_accepted_change_of_keys_fences_the_old_plugin;
    lost_commit:
        a_commit_whose_answer_is_lost_is_found,
        a_commit_that_was_never_sent_is_done_again,
        a_commit_that_comes_late_is_waited_for,
        a_broken_call_leaves_nothing_behind;
    crash_points:
        a_process_killed_at_any_call_loses_and_doubles_nothing;
    rivals:
        two_hosts_that_both_own_everything_apply_it_once;
    poison:
        one_poison_row_amid_a_thousand,
        of_two_rows_that_fail_together_the_second_is_poison,
        a_row_in_between_that_is_refused_is_its_record_s_fault,
        a_new_constraint_trips_the_breaker,
        a_corrected_republish_supersedes_its_dead_letter,
        the_correction_in_the_same_batch_is_applied,
        a_deferred_constraint_blames_its_record,
        values_that_do_not_fit_are_dead_letters;
    transitions:
        refused_steps_are_dead_letters_of_their_own_kind,
        a_state_follows_itself_only_where_that_is_allowed,
        late_events_do_not_trip_the_breaker,
        a_refused_inserter_cuts_the_batch,
        poison_takes_its_step_back,
        stale_versions_are_counted_and_deletes_stay;
    extremes:
        what_the_host_lets_through_the_database_takes;
    injection:
        no_name_and_no_value_is_ever_sql,
        the_host_s_own_tables_are_no_targets;
    values:
        every_value_arrives_in_every_column_that_takes_it,
        dead_letters_keep_the_raw_input;
    reports:
        figures_add_up,
        the_schema_is_migrated_once,
        registering_again_changes_no_key_version,
        totals_are_exact;
}
