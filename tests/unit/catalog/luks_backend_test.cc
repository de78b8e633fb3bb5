// The backend of encrypted pools, and the catalog over it. The images are real files without headers: the fake kernel
// knows what their headers would say.
#include "plugin/backends/luks/luks_backend.h"

#include <sys/stat.h>

#include "tests/unit/catalog/device_backend_fixture.h"
#include "tests/unit/catalog/volume_catalog_fixture.h"

namespace mooring::testing {
namespace {

constexpr char kPassphrase[] = "correct horse";

// Its sizes are multiples of 10 MiB.
class CoarseBackend final : public ImageBackend {
 public:
  using ImageBackend::ImageBackend;
  absl::StatusOr<std::uint64_t> RoundUp(std::uint64_t bytes) const override {
    constexpr std::uint64_t kUnit = 10 * kMiB;
    return (bytes + kUnit - 1) / kUnit * kUnit;
  }
};

class LuksBackendTest : public ::testing::Test {
 protected:
  static std::string Id(int number) { return fmt::format("vol-{:032x}", number); }
  static std::string SnapshotId(int number) { return fmt::format("snap-{:032x}", number); }

  template <typename Carrier = ImageBackend>
  std::unique_ptr<LuksBackend> Make(const std::string& key_file = "") {
    return std::make_unique<LuksBackend>(std::make_unique<Carrier>(dir_ / "volumes", loops_, contents_),
                                         std::make_unique<FakeDisks>(host_, "mooring-vol-*"), kernel_, key_file);
  }
  std::string Created(int number) {
    EXPECT_OK(backend_->Create({.id = Id(number), .bytes = 20 * kMiB, .passphrase = kPassphrase}));
    return Id(number);
  }
  void Open(const std::string& id, unsigned number) {
    kernel_.With([&](FakeKernel& kernel) { kernel.encrypted[id].is_open = true; });
    host_.Put("mooring-" + id, number, 20 * kMiB, "");
  }
  bool IsOpen(const std::string& id) {
    return kernel_.With([&](FakeKernel& kernel) { return kernel.encrypted[id].is_open; });
  }
  // As an interrupted call leaves it.
  void PutState(const std::string& id, const std::optional<EncryptedState>& state) {
    kernel_.With([&](FakeKernel& kernel) {
      kernel.encrypted.erase(id);
      if (state) kernel.encrypted[id].state = *state;
    });
  }
  std::string PassphraseOf(const std::string& id) {
    return kernel_.With([&](FakeKernel& kernel) { return kernel.encrypted[id].passphrase; });
  }
  std::string WriteKey(const std::string& text, mode_t mode = 0600) const {
    const std::string path = dir_ / "key";
    std::filesystem::remove(path);
    std::ofstream(path) << text;
    EXPECT_EQ(::chmod(path.c_str(), mode), 0);
    return path;
  }

  std::string Image(const std::string& id) const { return dir_ / ("volumes/" + id + ".img"); }
  std::vector<std::string> Files() const { return *EntriesOrNone(dir_ / "volumes"); }
  std::uint64_t BytesOf(const std::string& id) const { return std::filesystem::file_size(Image(id)); }

  TempDir dir_;
  FakeHost host_;
  FakeMounter kernel_;
  FakeLoops loops_;
  FakeContents contents_;
  std::unique_ptr<LuksBackend> backend_ = Make();
};

TEST_F(LuksBackendTest, TheHeaderIsNoPartOfTheSize) {
  const std::string id = Created(1);
  EXPECT_EQ(BytesOf(id), 36 * kMiB);
  const absl::StatusOr<VolumeLocation> found = backend_->Locate(id);
  ASSERT_OK(found);
  EXPECT_EQ(found->bytes, 20 * kMiB);
  EXPECT_EQ(found->carrier, Image(id));
  ASSERT_OK(backend_->Grow(id, 30 * kMiB));
  EXPECT_EQ(BytesOf(id), 46 * kMiB);
  EXPECT_EQ(backend_->Locate(id)->bytes, 30 * kMiB);
  std::filesystem::resize_file(Image(id), kMiB);
  EXPECT_EQ(backend_->Locate(id)->bytes, 0U);
  const ImageBackend carrier(dir_ / "volumes", loops_, contents_);
  const std::uint64_t all = carrier.Capacity()->largest_volume, here = backend_->Capacity()->largest_volume;
  EXPECT_NEAR(static_cast<double>(all), static_cast<double>(here + 16 * kMiB), static_cast<double>(8 * kMiB));
  EXPECT_NEAR(static_cast<double>(backend_->QuickCapacity()->largest_volume), static_cast<double>(here),
              static_cast<double>(8 * kMiB));
}

TEST_F(LuksBackendTest, TheCarrierRoundsTheSizeWithTheHeader) {
  const auto coarse = Make<CoarseBackend>();
  EXPECT_EQ(*coarse->RoundUp(4 * kMiB), 4 * kMiB);
  EXPECT_EQ(*coarse->RoundUp(4 * kMiB + 1), 14 * kMiB);
  EXPECT_EQ(*backend_->RoundUp(1'000'000'000), 1'000'001'536U) << "whole sectors of 4096 bytes";
}

TEST_F(LuksBackendTest, AnOpenVolumeHasADevice) {
  const std::string id = Created(1);
  EXPECT_EQ(backend_->Locate(id)->path, "/dev/mapper/mooring-" + id);
  EXPECT_EQ(backend_->Locate(id)->device, 0U);
  EXPECT_THAT(backend_->KnownDevices(), IsEmpty());
  Open(id, 5);
  host_.Put("mooring-vol-1", 6, kMiB, "");  // of somebody else
  EXPECT_EQ(backend_->Locate(id)->path, "/dev/fake5");
  EXPECT_EQ(backend_->Locate(id)->device, makedev(8, 5));
  EXPECT_EQ(backend_->Locate(id)->carrier, Image(id));
  const std::vector<KnownDevice> known = backend_->KnownDevices();
  ASSERT_EQ(known.size(), 1U);
  EXPECT_EQ(known[0].volume_id, id);
  EXPECT_EQ(known[0].node, "/dev/fake5");
  EXPECT_EQ(known[0].number, makedev(8, 5));
}

TEST_F(LuksBackendTest, ThePassphraseIsTheSecretOrElseThatOfTheKeyFile) {
  const auto keyed = Make(WriteKey("of the pool\n"));
  ASSERT_OK(keyed->Create({.id = Id(1), .bytes = 20 * kMiB, .passphrase = kPassphrase}));
  EXPECT_EQ(PassphraseOf(Id(1)), kPassphrase);
  ASSERT_OK(keyed->Create({.id = Id(2), .bytes = 20 * kMiB}));
  EXPECT_EQ(PassphraseOf(Id(2)), "of the pool");
  WriteKey("another\n\n");
  EXPECT_EQ(*keyed->PassphraseOr(""), "another\n");
  EXPECT_EQ(*keyed->PassphraseOr("given\n"), "given\n");
}

TEST_F(LuksBackendTest, WithoutAPassphraseNothingIsMade) {
  EXPECT_THAT(backend_->Create({.id = Id(1), .bytes = 20 * kMiB}),
              FailsWith(StatusCode::kUnauthenticated, "csi.storage.k8s.io/provisioner-secret-name"));
  EXPECT_THAT(backend_->PassphraseOr(""), FailsWith(StatusCode::kUnauthenticated, "secret encryptionPassphrase"));
  EXPECT_THAT(backend_->PassphraseOr(""), FailsWith(StatusCode::kUnauthenticated, "keyfile=PATH"));
  EXPECT_THAT(backend_->PassphraseOr(std::string(513, 'x')), FailsWith(StatusCode::kInvalidArgument, "512 bytes"));
  EXPECT_OK(backend_->PassphraseOr(std::string(512, 'x')));
  EXPECT_THAT(Files(), IsEmpty());
  EXPECT_THAT(kernel_.Calls(), IsEmpty());
}

TEST_F(LuksBackendTest, AKeyFileHasAPassphraseAndNothingElse) {
  const auto keyed = Make(WriteKey(std::string(512, 'x') + "\n"));
  EXPECT_EQ(*keyed->PassphraseOr(""), std::string(512, 'x'));
  const std::string most(512, 'x');
  for (const std::string& text : {most + "x", most + "x\n", most + "\n\n", most + "\nmore", most + most}) {
    WriteKey(text);
    EXPECT_THAT(keyed->PassphraseOr(""), FailsWith(StatusCode::kFailedPrecondition, "more than 512 bytes"));
    EXPECT_THAT(Message(keyed->PassphraseOr("").status()), Not(HasSubstr("xxx")));
  }
  for (const char* text : {"", "\n"}) {
    WriteKey(text);
    EXPECT_THAT(keyed->PassphraseOr(""), FailsWith(StatusCode::kFailedPrecondition, "is empty"));
  }
  std::filesystem::remove(dir_ / "key");
  EXPECT_THAT(keyed->PassphraseOr(""), FailsWith(StatusCode::kFailedPrecondition, dir_ / "key"));
  std::filesystem::create_directory(dir_ / "key");
  EXPECT_THAT(keyed->PassphraseOr(""), FailsWith(StatusCode::kFailedPrecondition, "no regular file"));
}

TEST_F(LuksBackendTest, TheStartRefusesAKeyFileThatEverybodyMayUse) {
  PoolConfig pool;
  pool.name = "secret";
  const auto check = [&pool] { return LuksBackendType().check_host(pool, false); };
  EXPECT_OK(check());
  pool.own_keys["keyfile"] = dir_ / "key";
  EXPECT_THAT(check(), FailsWith(StatusCode::kFailedPrecondition, "pool secret: read the key file"));
  for (const mode_t mode : {0600U, 0400U, 0440U, 0660U}) {
    WriteKey("key", mode);
    EXPECT_OK(check()) << mode;
  }
  for (const mode_t mode : {0604U, 0602U, 0644U}) {
    WriteKey("key", mode);
    EXPECT_THAT(check(), FailsWith(StatusCode::kFailedPrecondition, "chmod 600")) << mode;
  }
  WriteKey("");
  EXPECT_THAT(check(), FailsWith(StatusCode::kFailedPrecondition, "is empty"));
}

TEST_F(LuksBackendTest, ASnapshotNeedsNoPassphrase) {
  const std::string id = Created(1);
  kernel_.ClearLog();
  ASSERT_OK(backend_->Copy({{.id = SnapshotId(2), .source = "ignored", .bytes = 20 * kMiB, .source_id = id}}));
  EXPECT_EQ(BytesOf(SnapshotId(2)), 36 * kMiB);
  EXPECT_THAT(kernel_.Calls(),
              ElementsAre("MakeEncrypted " + Image(SnapshotId(2)) + " " + SnapshotId(2) + " " + id + " "));
  const absl::StatusOr<VolumeLocation> snapshot = backend_->Locate(SnapshotId(2));
  ASSERT_OK(snapshot);
  EXPECT_EQ(snapshot->bytes, 20 * kMiB);
  EXPECT_EQ(snapshot->carrier, Image(SnapshotId(2)));
}

// The carrier sees only ciphertext, so it renews nothing.
TEST_F(LuksBackendTest, ACloneWithANewUuidNeedsThePassphrase) {
  const std::string id = Created(1);
  CopyDraft clone = {.id = Id(2), .bytes = 30 * kMiB, .renew_fs_type = "xfs", .source_id = id};
  EXPECT_THAT(backend_->Copy({clone}), FailsWith(StatusCode::kUnauthenticated, "encryptionPassphrase"));
  EXPECT_THAT(contents_.copied(), IsEmpty());
  clone.passphrase = kPassphrase;
  ASSERT_OK(backend_->Copy({clone}));
  EXPECT_EQ(kernel_.Calls("MakeEncrypted").back(), "MakeEncrypted " + Image(Id(2)) + " " + Id(2) + " " + id + " xfs");
  EXPECT_EQ(contents_.copied().back().front().renew_fs_type, "");
  EXPECT_EQ(contents_.copied().back().front().source, Image(id));
  EXPECT_EQ(BytesOf(Id(2)), 46 * kMiB);
}

TEST_F(LuksBackendTest, ACopyThatFailsHalfWayLeavesNothing) {
  const std::string a = Created(1), b = Created(2);
  const std::vector<CopyDraft> drafts = {{.id = SnapshotId(3), .bytes = 20 * kMiB, .source_id = a},
                                         {.id = SnapshotId(4), .bytes = 20 * kMiB, .source_id = b}};
  kernel_.Fail("MakeEncrypted", Unavailable("no"), 2);
  EXPECT_THAT(backend_->Copy(drafts), FailsWith(StatusCode::kUnavailable, "no"));
  EXPECT_THAT(Files(), UnorderedElementsAre(a + ".img", b + ".img"));
  ASSERT_OK(backend_->Copy(drafts));
  EXPECT_THAT(Files(), SizeIs(4));
  // A copy that is there already stays.
  EXPECT_THAT(backend_->Copy(drafts), FailsWith(StatusCode::kAlreadyExists, SnapshotId(3)));
  EXPECT_THAT(Files(), SizeIs(4));
}

TEST_F(LuksBackendTest, ACopyLiesInThePoolOfItsSource) {
  const std::string id = Created(1);
  EXPECT_THAT(backend_->Copy({{.id = SnapshotId(3), .bytes = 20 * kMiB, .source_id = id},
                              {.id = SnapshotId(4), .bytes = 20 * kMiB, .source_id = Id(9)}}),
              FailsWith(StatusCode::kFailedPrecondition, "'" + Id(9) + "' does not lie in this pool"));
  EXPECT_THAT(Files(), ElementsAre(id + ".img"));
}

TEST_F(LuksBackendTest, AVolumeIsMadeWhenItsHeaderSaysSo) {
  const std::string id = Created(1);
  const auto expect = [&](bool made) {
    const absl::StatusOr<bool> finished = backend_->IsFinished(id);
    ASSERT_OK(finished);
    EXPECT_EQ(*finished, made);
    EXPECT_EQ(backend_->HoldsData(id), made);
  };
  expect(true);
  PutState(id, EncryptedState{.is_finished = false});
  expect(false);
  PutState(id, std::nullopt);  // there is no header
  expect(false);
  kernel_.Fail("ReportEncrypted", Unavailable("no helper"));
  EXPECT_THAT(backend_->IsFinished(id), FailsWith(StatusCode::kUnavailable, "no helper"));
  kernel_.Fail("ReportEncrypted", Unavailable("no helper"));
  EXPECT_TRUE(backend_->HoldsData(id)) << "it is unknown";
}

TEST_F(LuksBackendTest, ARawUseIsNotedUnlessItOnlyReads) {
  const std::string id = Created(1);
  const auto is_raw = [&] {
    return kernel_.With([&](FakeKernel& kernel) { return kernel.encrypted[id].state.is_raw; });
  };
  ASSERT_OK(backend_->NoteRawUse(id, true));
  EXPECT_FALSE(is_raw());
  ASSERT_OK(backend_->NoteRawUse(id, false));
  EXPECT_TRUE(is_raw());
}

TEST_F(LuksBackendTest, AVolumeInUseStays) {
  const std::string id = Created(1);
  Open(id, 5);
  loops_.Attach(Image(id));
  EXPECT_THAT(backend_->CheckUnused(id), FailsWith(StatusCode::kFailedPrecondition, "through /dev/loop7"));
  EXPECT_THAT(backend_->DeleteIfUnused(id, [] { return absl::OkStatus(); }),
              FailsWith(StatusCode::kFailedPrecondition, "through /dev/loop7"));
  EXPECT_TRUE(IsOpen(id)) << "a raw staging needs the mapping";
  EXPECT_THAT(Files(), SizeIs(1));
}

TEST_F(LuksBackendTest, TheRestOfAnInterruptedCallIsClosedAndDeleted) {
  const std::string id = Created(1);
  Open(id, 5);
  ASSERT_OK(backend_->Delete(id));
  EXPECT_FALSE(IsOpen(id));
  EXPECT_THAT(Files(), IsEmpty());
  kernel_.ClearLog();
  EXPECT_OK(backend_->Delete(SnapshotId(2)));
  EXPECT_THAT(kernel_.Calls(), IsEmpty());
}

TEST_F(LuksBackendTest, ReconcileListsTheImages) {
  const std::string id = Created(1);
  EXPECT_THAT(*backend_->Reconcile(), ElementsAre(id));
}

// A pool of images, and one of encrypted images.
class EncryptedCatalogTest : public ::testing::Test {
 protected:
  EncryptedCatalogTest() { Start(); }

  void Start() {
    store_ = *CatalogStore::Open(dir_ / "catalog.db");
    snapshot_store_ = std::make_unique<SnapshotStore>(store_->files());
    locks_ = *KeyedLocks::Shared(dir_ / "lock");
    VolumeCatalog::Settings settings;
    settings.node_id = "n1";
    catalog_ = std::make_unique<VolumeCatalog>(*store_, *snapshot_store_, pools_, *locks_, contents_, settings);
    snapshots_ = std::make_unique<SnapshotCatalog>(*snapshot_store_, *catalog_, pools_, *locks_, contents_);
  }
  Pools MakePools() {
    std::vector<Pool> pools;
    pools.push_back({.name = std::string(kDefaultPool),
                     .kind = BackendKind::kImage,
                     .backend = std::make_unique<ImageBackend>(dir_ / "plain", loops_, contents_)});
    auto carrier = std::make_unique<ImageBackend>(dir_ / "secret", loops_, contents_);
    auto disks = std::make_unique<FakeDisks>(host_, "mooring-vol-*");
    pools.push_back({.name = "secret",
                     .kind = BackendKind::kLuks,
                     .backend = std::make_unique<LuksBackend>(std::move(carrier), std::move(disks), kernel_, "")});
    return Pools(std::move(pools));
  }

  static CreateVolumeSpec Secret(const std::string& name, const std::string& passphrase = kPassphrase) {
    CreateVolumeSpec spec = Spec(name);
    spec.pool = "secret";
    spec.passphrase = passphrase;
    return spec;
  }
  std::string Created(const CreateVolumeSpec& spec) {
    const absl::StatusOr<VolumeInfo> volume = catalog_->Create(spec, Patient());
    EXPECT_OK(volume);
    return volume.ok() ? volume->id : "";
  }
  std::string Image(const std::string& id) const { return dir_ / ("secret/" + id + ".img"); }
  std::vector<std::string> Files() const { return *EntriesOrNone(dir_ / "secret"); }

  // The files and records of a copy whose process was killed before the copy had its own header.
  void LeaveCopy(const std::string& source) {
    const VolumeRecord volume = {.id = NewVolumeId(),
                                 .name = "copy",
                                 .state = VolumeState::kCreating,
                                 .bytes = 16 * kMiB,
                                 .fs_type = "ext4",
                                 .pool = "secret",
                                 .source = source};
    ASSERT_TRUE(*store_->Insert(volume));
    SnapshotRecord snapshot;
    snapshot.id = NewSnapshotId();
    snapshot.name = "snapshot";
    snapshot.source_volume_id = source;
    snapshot.pool = "secret";
    snapshot.bytes = 16 * kMiB;
    snapshot.fs_type = "ext4";
    ASSERT_TRUE(*snapshot_store_->Insert(snapshot));
    for (const std::string& id : {volume.id, snapshot.id}) std::filesystem::copy_file(Image(source), Image(id));
    copies_ = {volume.id, snapshot.id};
  }
  void Reconcile() {
    ASSERT_OK(snapshots_->Reconcile());
    ASSERT_OK(catalog_->Reconcile());
  }

  TempDir dir_;
  FakeHost host_;
  FakeMounter kernel_;
  FakeLoops loops_;
  FakeContents contents_;
  Pools pools_ = MakePools();
  std::unique_ptr<CatalogStore> store_;
  std::unique_ptr<SnapshotStore> snapshot_store_;
  std::unique_ptr<KeyedLocks> locks_;
  std::unique_ptr<VolumeCatalog> catalog_;
  std::unique_ptr<SnapshotCatalog> snapshots_;
  std::vector<std::string> copies_;
};

TEST_F(EncryptedCatalogTest, ARepeatedCallNeedsNoPassphrase) {
  const std::string id = Created(Secret("a"));
  EXPECT_EQ(kernel_.With([&](FakeKernel& kernel) { return kernel.encrypted[id].passphrase; }), kPassphrase);
  EXPECT_EQ(Created(Secret("a", "")), id);
  EXPECT_THAT(catalog_->Create(Secret("b", ""), Patient()),
              FailsWith(StatusCode::kUnauthenticated, "secret encryptionPassphrase"));
  EXPECT_THAT(Files(), ElementsAre(id + ".img"));
  EXPECT_THAT(*store_->ListUnfinished(), IsEmpty());
}

TEST_F(EncryptedCatalogTest, TheNodeLearnsTheImageAndThePassphrase) {
  const std::string id = Created(Secret("a")), plain = Created(Spec("plain"));
  const absl::StatusOr<NodeVolume> volume = catalog_->Find(id);
  ASSERT_OK(volume);
  EXPECT_EQ(volume->kind, BackendKind::kLuks);
  EXPECT_EQ(volume->carrier, Image(id));
  EXPECT_EQ(volume->path, "/dev/mapper/mooring-" + id);
  EXPECT_EQ(volume->bytes, 16 * kMiB);
  EXPECT_EQ(catalog_->Find(plain)->carrier, "");
  EXPECT_EQ(*catalog_->PassphraseOf(id, "given"), "given");
  EXPECT_THAT(catalog_->PassphraseOf(id, ""), FailsWith(StatusCode::kUnauthenticated, "encryptionPassphrase"));
  EXPECT_EQ(*catalog_->PassphraseOf(plain, ""), "");
}

TEST_F(EncryptedCatalogTest, SnapshotsAndClonesAreOfTheImage) {
  const std::string id = Created(Secret("a"));
  const auto snapshot = snapshots_->Create({.name = "s", .source_volume_id = id}, Patient());
  ASSERT_OK(snapshot);
  EXPECT_EQ(contents_.copied().back().front().source, Image(id));
  EXPECT_EQ(snapshots_->Locate(snapshot->id)->path, Image(snapshot->id));
  CreateVolumeSpec clone = CopySpec("clone", OfSnapshot(snapshot->id));
  EXPECT_THAT(catalog_->Create(clone, Patient()), FailsWith(StatusCode::kUnauthenticated, "encryptionPassphrase"));
  clone.passphrase = kPassphrase;
  EXPECT_THAT(Created(clone), Not(IsEmpty()));
  EXPECT_THAT(kernel_.Calls("MakeEncrypted").back(), EndsWith(snapshot->id + " ext4"));
  CreateVolumeSpec raw = CopySpec("raw", OfSnapshot(snapshot->id));
  raw.is_mounted = false;
  raw.is_raw = true;
  EXPECT_THAT(Created(raw), Not(IsEmpty()));
  EXPECT_THAT(Files(), SizeIs(4));
}

TEST_F(EncryptedCatalogTest, ACopyWithoutItsOwnHeaderIsNoVolume) {
  LeaveCopy(Created(Secret("a")));
  Reconcile();
  EXPECT_THAT(Files(), SizeIs(1));
  EXPECT_THAT(*store_->ListUnfinished(), IsEmpty());
  EXPECT_THAT(*snapshot_store_->AllIds(), IsEmpty());
}

TEST_F(EncryptedCatalogTest, ACopyThatIsWholeIsKept) {
  LeaveCopy(Created(Secret("a")));
  kernel_.With([&](FakeKernel& kernel) {
    for (const std::string& id : copies_) kernel.encrypted[id].state.is_finished = true;
  });
  Reconcile();
  EXPECT_OK(catalog_->Get(copies_[0]));
  EXPECT_OK(snapshots_->Get(copies_[1]));
}

TEST_F(EncryptedCatalogTest, ACopyThatIsPerhapsWholeWaits) {
  LeaveCopy(Created(Secret("a")));
  for (int nth = 1; nth <= 2; ++nth) kernel_.Fail("ReportEncrypted", Unavailable("no helper"), nth);
  Reconcile();
  EXPECT_THAT(Files(), SizeIs(3));
  EXPECT_THAT(*store_->ListUnfinished(), SizeIs(1));
  EXPECT_THAT(*snapshot_store_->ListUnfinished(), SizeIs(1));
}

TEST_F(EncryptedCatalogTest, TheImageOfASourceIsThawed) {
  const std::string id = Created(Secret("a"));
  CreateVolumeSpec clone = CopySpec("clone", OfVolume(id));
  clone.passphrase = kPassphrase;
  kernel_.Fail("MakeEncrypted", Unavailable("the helper has ended"));
  EXPECT_THAT(catalog_->Create(clone, Patient()), FailsWith(StatusCode::kUnavailable, "the helper has ended"));
  EXPECT_THAT(contents_.thawed(), ElementsAre(Image(id)));
  contents_.failure = Unavailable("the helper has ended");
  EXPECT_THAT(snapshots_->Create({.name = "s", .source_volume_id = id}, Patient()),
              FailsWith(StatusCode::kUnavailable, "the helper has ended"));
  EXPECT_THAT(contents_.thawed(), ElementsAre(Image(id), Image(id)));
  EXPECT_THAT(Files(), SizeIs(1));
}

// The request names no pool, so only the catalog knows where its copy lies.
TEST_F(EncryptedCatalogTest, ACopyIsEncryptedIfTheRequestSaysSo) {
  const std::string secret = Created(Secret("a")), plain = Created(Spec("plain"));
  const auto copy = [&](const std::string& source, std::optional<bool> encrypted, const std::string& passphrase) {
    CreateVolumeSpec spec = CopySpec("copy of " + source, OfVolume(source));
    spec.encrypted = encrypted;
    spec.passphrase = passphrase;
    return catalog_->Create(spec, Patient());
  };
  const auto expect_refusals = [&] {
    EXPECT_THAT(copy(plain, true, ""), FailsWith(StatusCode::kInvalidArgument, "a pool of backend luks (secret)"));
    EXPECT_THAT(copy(plain, std::nullopt, "x"), FailsWith(StatusCode::kInvalidArgument, "secret encryptionPassphrase"));
    EXPECT_THAT(copy(secret, false, "x"), FailsWith(StatusCode::kInvalidArgument, "encrypts all of its volumes"));
  };
  expect_refusals();
  EXPECT_OK(copy(secret, true, "x"));
  EXPECT_OK(copy(plain, false, ""));
  expect_refusals();  // now that the copies exist
}

}  // namespace
}  // namespace mooring::testing
