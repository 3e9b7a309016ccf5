"""Recorders and loggers: what they wrote is read again and compared."""

from __future__ import annotations

import csv
import glob
import json
import struct
from collections.abc import Iterator
from functools import partial
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest
import torch
from tensordict import TensorDict

import marlenv
from marlenv import (
    Compose,
    CSVLogger,
    PixelRenderTransform,
    SerialEnv,
    TensorDictRecorder,
    TransformedEnv,
    VideoRecorder,
)
from marlenv.errors import DtypeError, KeyMissing, ShapeError, SpecError, Unsupported
from marlenv.record import Logger, read_video, write_video
from marlenv.testing.mocks import CountingEnv


class Shades(CountingEnv):
    """Shows its count as shades: ``[*B, 16, 24, 3]`` of bytes, or the other way round, red 40 times the count."""

    def __init__(
        self, batch_size: list[int] | None = None, first: bool = False, dtype: torch.dtype = torch.uint8
    ) -> None:
        super().__init__(max_steps=5, batch_size=batch_size or [])
        self.first, self.kind = first, dtype
        shape = (*self.batch_size, *((3, 16, 24) if first else (16, 24, 3)))
        spec = marlenv.Composite(observation=marlenv.Unbounded((*self.batch_size, 1)), shape=self.batch_size)
        spec["pixels"] = marlenv.Unbounded(shape, dtype=dtype)
        self.observation_spec = spec

    def image(self) -> torch.Tensor:
        image = torch.zeros(*self.batch_size, 3, 16, 24)
        image[..., 0, :, :] = self.count.reshape(*self.batch_size, 1, 1) * 40
        image = image if self.first else image.movedim(-3, -1)
        return (image / 255 if self.kind.is_floating_point else image).to(self.kind)

    def _reset(self, tensordict: TensorDict | None, **_: object) -> TensorDict:
        return super()._reset(tensordict).set("pixels", self.image())

    def _step(self, tensordict: TensorDict) -> TensorDict:
        return super()._step(tensordict).set("pixels", self.image())

    def render(self) -> torch.Tensor:
        return self.image()


def film(tmp_path: Path, env: CountingEnv, steps: int = 4, **options: object) -> torch.Tensor:
    logger = CSVLogger("run", str(tmp_path), video_format="pt")
    seen = TransformedEnv(env, VideoRecorder(logger, "film", skip=1, **options))
    seen.rollout(steps)
    seen.transform.dump()
    return torch.load(tmp_path / "run" / "videos" / "film_0.pt")


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
def test_films_hold_every_step(tmp_path: Path, first: bool, dtype: torch.dtype) -> None:
    made = film(tmp_path, Shades(first=first, dtype=dtype))
    assert made.shape == (1, 5, 3, 16, 24)
    assert made[0, :, 0, 3, 3].tolist() == [0, 40, 80, 120, 160]
    assert not made[0, :, 1:].any()


def test_rows_stand_side_by_side(tmp_path: Path) -> None:
    made = film(tmp_path, Shades([3]))
    assert made.shape == (1, 5, 3, 16, 3 * 26 - 2)
    assert made[0, 2, 0, 5].tolist() == [80] * 24 + [0] * 2 + [80] * 24 + [0] * 2 + [80] * 24
    one_by_one = film(tmp_path / "b", Shades([3]), make_grid=False, max_frames=7)
    assert one_by_one[0, :, 0, 0, 0].tolist() == [0, 0, 0, 40, 40, 40, 80]


def test_parts_of_films(tmp_path: Path) -> None:
    assert film(tmp_path, Shades(), center_crop=8).shape == (1, 5, 3, 8, 8)
    logger = CSVLogger("some", str(tmp_path))
    env = TransformedEnv(Shades(), VideoRecorder(logger, "film", max_frames=2, dump_on_done=True))
    env.rollout(9)
    made = torch.load(tmp_path / "some" / "videos" / "film_0.pt")
    assert made[0, :, 0, 0, 0].tolist() == [40, 120]  # every second of the reset and five steps
    assert env.transform.frames == []


@pytest.mark.parametrize("ending", ["gif", "mp4"])
def test_films_are_opened_again(tmp_path: Path, ending: str) -> None:
    if ending == "mp4":
        pytest.importorskip("av", reason="comes with the extra video")
    logger = CSVLogger("run", str(tmp_path), video_format=ending, video_fps=10)
    env = TransformedEnv(Shades(), Compose(VideoRecorder(logger, "film", skip=1)))
    env.rollout(4)
    env.transform.dump(suffix="last")
    made = read_video(tmp_path / "run" / "videos" / f"film_last_0.{ending}")
    assert made.shape == (5, 16, 24, 3)
    want = torch.arange(5).mul(40)
    assert (made[:, 8, 12, 0].int() - want).abs().max() <= (0 if ending == "gif" else 6)
    assert made[:, 8, 12, 1:].max() <= (0 if ending == "gif" else 6)


@pytest.mark.parametrize("ending", ["gif", "mp4"])
@pytest.mark.parametrize("fps", [7, 30, 50])
def test_frames_that_stay_the_same_are_read_again_one_by_one(tmp_path: Path, ending: str, fps: int) -> None:
    """A gif keeps equal frames as one that lasts longer."""
    if ending == "mp4":
        pytest.importorskip("av", reason="comes with the extra video")
    shades = torch.tensor([0, 0, 0, 120, 240, 240, 0, 0, 0, 0, 0])
    film = shades.to(torch.uint8).reshape(-1, 1, 1, 1).expand(-1, 16, 24, 3)
    made = read_video(write_video(tmp_path / f"film.{ending}", film, fps=fps))
    assert made.shape == film.shape
    assert (made[:, 8, 12, 0].int() - shades).abs().max() <= 6
    still = read_video(write_video(tmp_path / f"still.{ending}", film[:3], fps=fps))
    assert len(still) == 3


@pytest.mark.parametrize(("fps", "seconds"), [(0.4, 15), (1.5, 4), (2.5, 2.4), (30, 0.2), (30000 / 1001, 0.2002)])
def test_an_mp4_lasts_as_long_as_its_frames_per_second_say(tmp_path: Path, fps: float, seconds: float) -> None:
    av = pytest.importorskip("av", reason="comes with the extra video")
    made = write_video(tmp_path / "film.mp4", torch.zeros(6, 16, 24, 3, dtype=torch.uint8), fps=fps)
    with av.open(str(made)) as film:
        shown = [float(frame.pts * frame.time_base) for frame in film.decode(video=0)]
        assert film.duration / 1e6 == pytest.approx(seconds)
    assert shown == pytest.approx([i * seconds / 6 for i in range(6)])


def test_a_film_of_a_scenario_is_what_it_drew(tmp_path: Path) -> None:
    env = marlenv.make("simple_spread", num_envs=1, seed=0, compile="none")
    logger = CSVLogger("run", str(tmp_path), video_format="pt")
    drawn = PixelRenderTransform(preproc=lambda image: image[None])
    env = TransformedEnv(env, Compose(drawn, VideoRecorder(logger, "film", skip=1)))
    data = env.rollout(4)
    env.transform.dump()
    made = torch.load(tmp_path / "run" / "videos" / "film_0.pt")
    want = torch.cat((data["pixels"][0, :1], data["next", "pixels"][0]))
    assert torch.equal(made[0], want.movedim(-1, 1))
    assert not torch.equal(made[0, 0], made[0, 4])


def test_films_are_memory_mapped(tmp_path: Path) -> None:
    logger = CSVLogger("run", str(tmp_path), video_format="memmap")
    logger.log_video("a", torch.full((1, 2, 3, 4, 4), 7, dtype=torch.uint8), step=3)
    data = torch.from_file(str(tmp_path / "run" / "videos" / "a_3.memmap"), size=96, dtype=torch.uint8)
    assert data.tolist() == [7] * 96


def test_what_is_rendered_goes_into_the_data() -> None:
    env = TransformedEnv(Shades([2]), PixelRenderTransform(out_keys=["drawn"]))
    out = env.rollout(3)
    assert torch.equal(out["next", "drawn"], out["next", "pixels"])
    env.check_env_specs()
    env.transform.switch("off")
    assert "drawn" not in env.rand_step(env.reset())["next"]
    env.transform.switch()
    assert env.transform.enabled
    native = marlenv.make("simple_spread", num_envs=2, seed=0).append_transform(PixelRenderTransform())
    assert native.reset()["pixels"].shape[-1] == 3  # of one row


class Drawn(CountingEnv):
    def render(self) -> torch.Tensor:
        return torch.full((4, 5, 3), int(self.count.sum()), dtype=torch.uint8)


def test_what_the_envs_of_a_pool_draw_is_filmed_and_kept_once() -> None:
    """Counts 0 to 2 of both envs; the ends of episodes, 3, are filmed and in the next data."""
    recorder = VideoRecorder(None, "film", make_grid=False)
    env = SerialEnv(2, lambda: Drawn(3).append_transform(PixelRenderTransform())).append_transform(recorder)
    data = env.rollout(4, break_when_any_done=False)
    assert {*env.observation_keys} == {"observation", "pixels"}
    assert data["pixels"][..., 0, 0, 0].tolist() == [[0, 1, 2, 0]] * 2
    assert data["next", "pixels"][..., 0, 0, 0].tolist() == [[1, 2, 3, 1]] * 2
    assert [int(frame[0, 0, 0]) for frame in recorder.frames[::2]] == [0, 1, 2, 3, 0, 1]


@pytest.mark.parametrize("pool", [False, True])
def test_drawing_leaves_the_episodes_of_a_seeded_env_as_they_are(pool: bool) -> None:
    def make():
        env = SerialEnv(2, partial(marlenv.make, "simple_spread", num_envs=1, compile="none")) if pool else None
        env = env or marlenv.make("simple_spread", num_envs=2, compile="none")
        env.set_seed(0)
        return env

    plain, drawn = make(), TransformedEnv(make(), PixelRenderTransform(size=(20, 20)))
    a, b = (env.rollout(4, break_when_any_done=False) for env in (plain, drawn))
    for key in a.keys(True, True):
        assert torch.equal(a[key], b[key]), key
    drawn.append_transform(PixelRenderTransform(["again"], size=(20, 20)))
    a, b = (env.rollout(2)["agents", "observation"] for env in (plain, drawn))
    assert torch.equal(a, b)


@pytest.mark.sim
def test_drawing_begins_with_the_first_episode_of_a_simulators_seed() -> None:
    gymnasium = pytest.importorskip("gymnasium", reason="comes with the extra gym")
    pytest.importorskip("pygame", reason="draws the picture")
    env = marlenv.GymEnv("CartPole-v1", render_mode="rgb_array")
    env.set_seed(3, static_seed=True)
    env = TransformedEnv(env, PixelRenderTransform())
    want, _ = gymnasium.make("CartPole-v1").reset(seed=3)
    assert np.array_equal(env.reset()["observation"], want)
    assert env.full_observation_spec["pixels"].shape == (400, 600, 3)


def test_an_env_that_cannot_be_copied_is_drawn_too() -> None:
    class Locked(Shades):
        def __deepcopy__(self, memo: object) -> None:
            raise TypeError("cannot pickle '_thread.lock' object")

    env = TransformedEnv(Locked([2]), PixelRenderTransform(["drawn"]))
    env.check_env_specs()
    data = env.rollout(3)
    assert torch.equal(data["next", "drawn"], data["next", "pixels"])


@pytest.mark.parametrize("rows", [[], [1]])
def test_images_that_are_no_tensors_are_those_of_their_rows(rows: list[int]) -> None:
    """A pool draws one image for every env; each row has its own, fresh after a reset of that row alone."""

    class Drawn(Shades):
        def render(self):
            return self.image().reshape(16, 24, 3).numpy()

    env = TransformedEnv(SerialEnv(2, lambda: Drawn(rows)), PixelRenderTransform(["drawn"], as_non_tensor=True))
    env.check_env_specs()
    td = env.step_mdp(env.rollout(3)[..., -1])
    td = env.reset(td.set("_reset", torch.tensor([True, False]).reshape(2, *rows, 1)))
    for shades in ([0, 120], [40, 160]):
        alone = [td[(row, *[0] * len(rows))] for row in range(2)]
        assert [int(one["drawn"][0, 0, 0]) for one in alone] == shades
        assert all(np.array_equal(one["drawn"], one["pixels"]) for one in alone)
        td = env.step_mdp(env.rand_step(td))


def test_data_are_recorded(tmp_path: Path) -> None:
    recorder = TensorDictRecorder(str(tmp_path / "run"), skip=2, in_keys=["observation"])
    env = TransformedEnv(CountingEnv(9), recorder)
    env.rollout(6)
    env.transform.dump(suffix="a")
    data = torch.load(tmp_path / "run_a_tensordict.t", weights_only=False)
    assert data["observation"].flatten().tolist() == [2, 4, 6]
    assert env.transform.dump() is None


@pytest.mark.parametrize("keys", [None, ["observation", "reward"]])
def test_rewards_of_resets_are_recorded_as_zeros(tmp_path: Path, keys: list[str] | None) -> None:
    recorder = TensorDictRecorder(str(tmp_path / "run"), skip=1, skip_reset=False, in_keys=keys)
    env = TransformedEnv(CountingEnv(2), recorder)
    seen = env.rollout(3, break_when_any_done=False)
    data = torch.load(env.transform.dump(), weights_only=False)
    assert data["observation"].flatten().tolist() == [0, 1, 2, 0, 1]
    assert data["reward"].flatten().tolist() == [0, 1, 1, 0, 1]
    assert "reward" not in seen.keys()


def test_callbacks_of_rollouts_log(tmp_path: Path) -> None:
    logger = CSVLogger("run", str(tmp_path))
    CountingEnv(9).rollout(3, callback=lambda env, td: logger.log_metrics({"seen": td["next", "observation"]}))
    with (tmp_path / "run" / "scalars" / "seen.csv").open() as file:
        assert list(csv.reader(file)) == [["0", "1.0"], ["1", "2.0"], ["2", "3.0"]]


def test_options_and_nested_metrics(tmp_path: Path) -> None:
    logger = CSVLogger("run", str(tmp_path))
    logger.log_hparams({"lr": 0.1, "env": "spread"})
    assert (tmp_path / "run" / "texts" / "hparams0.txt").read_text() == "env: spread\nlr: 0.1"
    metrics = TensorDict({"agents": {"reward": torch.tensor([1.0, 3.0])}})
    assert logger.log_metrics(metrics, step=5) == {"agents/reward": 2.0}
    assert (tmp_path / "run" / "scalars" / "agents" / "reward.csv").read_text() == "5,2.0\n"


def test_metrics_are_written_as_exactly_as_they_were_given(tmp_path: Path) -> None:
    metrics = {
        "steps": torch.tensor(16777217),  # no number of 32 bits
        "time": torch.tensor(1764405000.123, dtype=torch.float64),
        "large": torch.tensor([1e300, 3e300], dtype=torch.float64),
        "won": torch.tensor([True, False]),
        "half": torch.tensor(1.5, dtype=torch.bfloat16),
    }
    want = {"steps": 16777217.0, "time": 1764405000.123, "large": 2e300, "won": 0.5, "half": 1.5}
    assert CSVLogger("run", str(tmp_path)).log_metrics(metrics) == want
    assert (tmp_path / "run" / "scalars" / "steps.csv").read_text() == "0,16777217.0\n"


FILM = torch.arange(3, dtype=torch.uint8).mul(80).reshape(1, 3, 1, 1, 1).expand(1, 3, 3, 16, 16)


def use(logger: Logger) -> None:
    logger.log_hparams({"lr": 0.1, "layers": [1, 2]})
    CountingEnv(9).rollout(
        3,
        callback=lambda env, td: logger.log_scalar(
            "loss", 1.0 / float(td["next", "observation"]), step=int(td["observation"])
        ),
    )
    logger.log_video("film", FILM, step=1)
    logger.close()


def same_film(path: Path | str) -> None:
    """Holds that a file is the film, as far as mp4 keeps it."""
    made = read_video(Path(path))
    assert made.shape == (3, 16, 16, 3)
    assert (made.int() - FILM[0].movedim(1, -1).int()).abs().max() <= 6


@pytest.mark.filterwarnings("ignore")  # its own
def test_tensorboard_reads_it(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard", reason="comes with the extra tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    logger = marlenv.TensorboardLogger("run", str(tmp_path))
    logger.log_histogram("weights", torch.arange(9.0))
    use(logger)
    found = EventAccumulator(str(tmp_path / "run"), size_guidance={"images": 0, "histograms": 0}).Reload()
    assert [round(event.value, 3) for event in found.Scalars("loss")] == [1.0, 0.5, 0.333]
    (tmp_path / "film.gif").write_bytes(found.Images("film")[0].encoded_image_string)
    same_film(tmp_path / "film.gif")
    assert found.Histograms("weights")[0].histogram_value.num == 9


def records(data: bytes) -> Iterator[bytes]:
    """What stands in a file of W&B: a log as LevelDB writes it, behind seven bytes."""
    at, whole = 7, b""
    while at + 7 <= len(data):
        if (left := 32768 - at % 32768) < 7:
            at += left
            continue
        length, kind = struct.unpack("<HB", data[at + 4 : at + 7])
        whole += data[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in (1, 4):  # all of it, or the last part
            yield whole
            whole = b""


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # its own
def test_wandb_writes_offline(tmp_path: Path) -> None:
    """What it wrote is read from its file, record by record."""
    wandb = pytest.importorskip("wandb", reason="comes with the extra wandb")
    pytest.importorskip("av", reason="comes with the extra video")
    from wandb.proto.wandb_internal_pb2 import Record

    use(marlenv.WandbLogger("run", offline=True, save_dir=str(tmp_path), project="test"))
    wandb.teardown()  # waits for its process
    runs = glob.glob(str(tmp_path / "wandb" / "offline-run-*" / "*.wandb"))
    assert len(runs) == 1
    rows, options = [], {}
    for data in records(Path(runs[0]).read_bytes()):
        record = Record()
        record.ParseFromString(data)
        if record.WhichOneof("record_type") == "history":
            named = ((".".join(item.nested_key) or item.key, item.value_json) for item in record.history.item)
            rows.append({key: json.loads(value) for key, value in named})
        for item in (*record.config.update, *record.run.config.update):
            options[".".join(item.nested_key) or item.key] = json.loads(item.value_json)
    losses = [(row["trainer/step"], round(row["loss"], 3)) for row in rows if "loss" in row]
    assert losses == [(0, 1.0), (1, 0.5), (2, 0.333)]
    assert (options["lr"], options["layers"]) == (0.1, [1, 2])
    assert options["env"]["packages"]["torch"] == metadata.version("torch")
    films = glob.glob(str(Path(runs[0]).parent / "files" / "media" / "videos" / "*.mp4"))
    assert len(films) == 1
    same_film(films[0])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # its own
def test_mlflow_reads_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")  # files serve a test; MLflow wants a database
    mlflow = pytest.importorskip("mlflow", reason="comes with the extra mlflow", exc_type=ImportError)
    pytest.importorskip("av", reason="comes with the extra video")
    logger = marlenv.MLFlowLogger("run", f"file://{tmp_path}/runs")
    run = logger.experiment.info.run_id
    use(logger)
    client = mlflow.MlflowClient(f"file://{tmp_path}/runs")
    assert [round(m.value, 3) for m in client.get_metric_history(run, "loss")] == [1.0, 0.5, 0.333]
    assert client.get_run(run).data.params["lr"] == "0.1"
    assert [a.path for a in client.list_artifacts(run, "videos")] == ["videos/film_1.mp4"]
    same_film(next((tmp_path / "runs").rglob("film_1.mp4")))


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Where MLflow keeps its runs; those that a test leaves active are ended."""
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    mlflow = pytest.importorskip("mlflow", reason="comes with the extra mlflow", exc_type=ImportError)
    yield f"file://{tmp_path}/runs"
    while mlflow.active_run() is not None:
        mlflow.end_run()


def kept(store: str, logger: Logger) -> tuple[dict[str, float], str]:
    """The numbers of a logger's run, and how it stands."""
    import mlflow

    run = mlflow.MlflowClient(store).get_run(logger.experiment.info.run_id)
    return run.data.metrics, run.info.status


@pytest.mark.filterwarnings("ignore")  # its own
@pytest.mark.parametrize("options", [{}, {"nested": True}, {"run_name": "beside"}], ids=str)
def test_each_mlflow_logger_writes_its_own_run(store: str, options: dict[str, object]) -> None:
    import mlflow

    first = marlenv.MLFlowLogger("first", store)
    mlflow.log_metric("of the user", 1)
    second = marlenv.MLFlowLogger("second", store, **options)
    first.log_scalar("mine", 2)
    second.log_scalar("other", 3)
    first.log_hparams({"lr": 0.1})
    first.close()
    second.log_scalar("after", 4)
    assert kept(store, first) == ({"of the user": 1, "mine": 2}, "FINISHED")
    assert kept(store, second) == ({"other": 3, "after": 4}, "RUNNING")
    second.close()
    assert kept(store, second)[1] == "FINISHED"


@pytest.mark.filterwarnings("ignore")  # its own
def test_an_mlflow_logger_leaves_the_run_of_the_user_alone(store: str) -> None:
    import mlflow

    mlflow.set_tracking_uri(store)
    with mlflow.start_run() as run:
        with marlenv.MLFlowLogger("mine", store) as logger:
            logger.log_scalar("loss", 2)
        mlflow.log_metric("of the user", 1)
        assert mlflow.active_run().info.run_id == run.info.run_id
    assert kept(store, logger) == ({"loss": 2}, "FINISHED")
    assert mlflow.MlflowClient(store).get_run(run.info.run_id).data.metrics == {"of the user": 1}


@pytest.mark.filterwarnings("ignore")  # its own
def test_without_steps_mlflow_gets_one_after_the_other(store: str) -> None:
    import mlflow

    pytest.importorskip("av", reason="comes with the extra video")
    logger = marlenv.MLFlowLogger("run", store)
    for value in (5, 6, 7):
        logger.log_scalar("loss", value)
    for name in ("film", "film", "a/b", "a_b"):
        logger.log_video(name, FILM)
    client, run = mlflow.MlflowClient(store), logger.experiment.info.run_id
    assert [(m.step, m.value) for m in client.get_metric_history(run, "loss")] == [(0, 5), (1, 6), (2, 7)]
    films = [one.path for one in client.list_artifacts(run, "videos") if not one.is_dir]
    assert sorted(films) == ["videos/a_b_0.mp4", "videos/film_0.mp4", "videos/film_1.mp4"]
    assert [one.path for one in client.list_artifacts(run, "videos/a")] == ["videos/a/b_0.mp4"]


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda tmp: TransformedEnv(CountingEnv(), VideoRecorder(None, "x")), KeyMissing,
         r"VideoRecorder: no entry 'pixels'; the env observes \['observation'\]"),
        (lambda tmp: TransformedEnv(CountingEnv(), VideoRecorder(None, "x", ["observation"], skip=1)).rollout(1),
         ShapeError, r"expected images \[..., C, H, W\] or \[..., H, W, C\], got \[1\]"),
        (lambda tmp: CSVLogger("x", tmp, video_format="avi"), SpecError,
         r"video_format must be one of \['pt', 'memmap', 'mp4', 'gif'\], got 'avi'"),
        (lambda tmp: CSVLogger("x", tmp).log_video("a", torch.zeros(3, 4, 4)), ShapeError,
         r"CSVLogger.log_video: expected \[N, T, C, H, W\] of 1 or 3 colours, got \[3, 4, 4\]"),
        (lambda tmp: CSVLogger("x", tmp).log_histogram("a", [1.0]), Unsupported, r"csv files have no histograms"),
        (lambda tmp: CSVLogger("x", tmp).log_metrics({"loss": 1.0, "phase": "warm"}), DtypeError,
         r"CSVLogger.log_metrics: 'phase' must be a number or a tensor of numbers, got 'warm'; leave it out"),
        (lambda tmp: VideoRecorder(3, "x"), SpecError, r"logger must be a logger with log_video\(\), or None, got 3"),
        (lambda tmp: VideoRecorder(None, "x", skip=0), SpecError, r"VideoRecorder: skip must be an integer from 1 on"),
        (lambda tmp: write_video(f"{tmp}/a.gif", torch.zeros(0, 2, 2, 3)), ShapeError,
         r"write_video: expected frames \[T, H, W, 3\], one or more, got \[0, 2, 2, 3\]"),
        (lambda tmp: write_video(f"{tmp}/a.mp4", torch.zeros(1, 2, 2, 3), fps=0), SpecError, r"fps must be above 0"),
        (lambda tmp: write_video(f"{tmp}/a.avi", torch.zeros(1, 2, 2, 3)), SpecError,
         r"must end with one of \['.mp4', '.gif'\], got 'a.avi'"),
        (lambda tmp: write_video(f"{tmp}/a.mp4", torch.zeros(3, 1, 8, 3, dtype=torch.uint8)), ShapeError,
         r"an mp4 has 2 rows and columns or more, got \[1, 8\]; write a .gif"),
        (lambda tmp: write_video(f"{tmp}/a.gif", torch.zeros(3, 4, 8, 3)), DtypeError,
         r"write_video: expected frames of uint8, 0 to 255, got torch.float32"),
        (lambda tmp: CountingEnv().append_transform(PixelRenderTransform()), SpecError,
         r"PixelRenderTransform: CountingEnv has no render\(\)"),
        (lambda tmp: PixelRenderTransform().switch("maybe"), SpecError,
         r"mode must be 'on', 'off' or a bool, got 'maybe'"),
    ],
)  # fmt: skip
def test_what_is_refused(tmp_path: Path, make: object, error: type, text: str) -> None:
    with pytest.raises(error, match=text):
        make(str(tmp_path))
