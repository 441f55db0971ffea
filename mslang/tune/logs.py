"""Events as messages of Python's `logging`, under the name `mslang.tune`."""

from __future__ import annotations

import logging

from mslang.tune.progress import Confirming, Ended, Event, Failed, Finished, Generation, Planned, Started, Trial, Warned

LOG = logging.getLogger("mslang.tune")

# A library's messages go nowhere unless the application says where (Python's logging HOWTO).
logging.getLogger("mslang").addHandler(logging.NullHandler())


def log_event(event: Event) -> None:
    """Log an event: trials as DEBUG, the course of a search as INFO, warnings and failed tasks as they are."""
    match event:
        case Planned(tasks=tasks, scheduler=scheduler):
            LOG.info("tuning %d tasks (%s): %s", len(tasks), scheduler, ", ".join(t.name for t in tasks))
        case Started():
            LOG.info("%s: run %s in %s, %d trials on record", event.task, event.run, event.space, event.resumed)
        case Trial(record=r):
            seconds = "no time" if r.seconds is None else f"{r.seconds:.4g} s"
            LOG.debug("%s: trial %d, %s, %s, %s", event.task, r.trial, r.result.outcome.value, seconds, r.decisions)
        case Generation():
            LOG.info(
                "%s: generation %d, %d trials, %d rejected, model %s",
                event.task,
                event.number,
                event.trials,
                sum(event.rejected.values()),
                "none" if event.quality is None else f"{event.quality:.2f}",
            )
        case Confirming():
            LOG.info("%s: %s; %d finalists", event.task, event.reason, event.finalists)
        case Finished(best=best):
            LOG.info("%s: %s; best %s", event.task, event.reason, "none" if best is None else f"{best.seconds:.4g} s")
        case Failed(diagnostic=d):
            LOG.error("%s: %s: %s", event.task, d.code, d.message)
        case Warned(diagnostic=d):
            LOG.warning("%s: %s", d.code, d.message)
        case Ended():
            LOG.info("done in %.1f s", event.seconds)
