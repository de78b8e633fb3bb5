// The plugin's records in SQLite: what is written is read again, and rows and files that somebody damaged give errors.
#include <SQLiteCpp/SQLiteCpp.h>
#include <fuzzer/FuzzedDataProvider.h>

#include <filesystem>
#include <fstream>
#include <map>

#include "base/file/whole_file.h"
#include "base/status.h"
#include "base/text/clean_text.h"
#include "base/text/quote.h"
#include "plugin/catalog/store/catalog_store.h"
#include "plugin/node/node_volumes.h"
#include "plugin/node/uses/node_store.h"
#include "tests/fakes/fake_mounter.h"
#include "tests/fakes/fake_volume_source.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/temp_dir.h"

namespace mooring::fuzz {
namespace {

constexpr char kId[] = "vol-00000000000000000000000000000000";

// A directory that the inputs use one after another. Each begins with empty databases, which are copied: making them
// takes longer than the rest of an input.
class Directory {
 public:
  static const Directory& Fresh() {
    static const Directory directory;
    for (const auto& entry : std::filesystem::directory_iterator(directory.path_)) std::filesystem::remove(entry);
    for (const auto& [name, bytes] : directory.empty_) std::ofstream(directory.File(name)) << bytes;
    return directory;
  }

  std::string File(const std::string& name) const { return path_ + "/" + name + ".db"; }

 private:
  Directory() {
    Require(NodeStore::Open(File("node"), "boot").ok() && CatalogStore::Open(File("catalog")).ok(),
            "databases are made");
    for (const char* name : {"node", "catalog"}) empty_[name] = *ReadWholeFile(File(name));
  }

  const testing::TempDir scratch_;
  const std::string path_ = scratch_.path();
  std::map<std::string, std::string> empty_;  // bytes, by name
};

class Stores {
 public:
  explicit Stores(FuzzedDataProvider& input) : input_(input) {}

  void Try() {
    Open();
    WriteAndRead();
    DamageRows();
    ReadAll();
    DamageFiles();
    Open();
    ReadAll();
  }

 private:
  // A damaged catalogue is an error, and damaged records of the node are set aside.
  void Open() {
    node_.reset();
    catalog_.reset();
    auto node = NodeStore::Open(File("node"), "boot");
    Accept(node.status());
    if (node.ok()) node_ = *std::move(node);
    auto catalog = CatalogStore::Open(File("catalog"));
    Accept(catalog.status());
    if (catalog.ok()) catalog_ = *std::move(catalog);
  }

  static void Accept(const absl::Status& status) {
    if (status.ok()) return;
    Require(!Message(status).empty() && IsUtf8(Message(status)), "an error has a message", Message(status));
  }

  std::string File(const std::string& name) const { return directory_.File(name); }

  // No name or path that a request may have contains NUL.
  std::string Text() {
    std::string text = input_.ConsumeRandomLengthString(100);
    std::erase(text, '\0');
    return text;
  }

  void WriteAndRead() {
    VolumeUse use;
    use.path = Text();
    use.volume_id = Text();
    use.role = input_.PickValueInArray({VolumeUse::Role::kStage, VolumeUse::Role::kTarget});
    use.done = input_.ConsumeBool();
    use.mode = input_.PickValueInArray({AccessMode::kSingleNodeWriter, AccessMode::kSingleNodeMultiWriter});
    use.capability = Text();
    use.options = Text();
    use.device = Text();
    use.propagation = input_.PickValueInArray({Propagation::kInherit, Propagation::kSlave, Propagation::kShared});
    Require(node_->Put(use).ok(), "a use can be written");
    const auto found = node_->Get(use.path);
    Require(found.ok() && *found == use, "a use is read as it was written");

    VolumeRecord volume;
    volume.id = kId;
    volume.name = CleanText(Text());  // protobuf's texts are UTF-8
    volume.bytes = input_.ConsumeIntegral<std::uint64_t>();
    volume.fs_type = "ext4";
    volume.source = "";
    volume.ephemeral = Text();
    volume.asked_bytes = volume.bytes;
    volume.tuning.read_ahead_bytes = input_.ConsumeIntegral<std::uint32_t>();
    Require(*catalog_->Insert(volume), "a volume can be written");
    const auto read = catalog_->FindById(kId);
    Require(read.ok() && read->has_value() && (*read)->name == volume.name && (*read)->bytes == volume.bytes &&
                (*read)->ephemeral == volume.ephemeral && (*read)->tuning == volume.tuning,
            "a volume is read as it was written");
  }

  void DamageRows() {
    constexpr const char* kUses[] = {"role", "done", "access_type", "mode", "capability", "options", "propagation"};
    constexpr const char* kVolumes[] = {"state", "capacity_bytes", "fs_type", "tuning",
                                        "pool",  "propagation",    "source"};
    SQLite::Database node(File("node"), SQLite::OPEN_READWRITE), catalog(File("catalog"), SQLite::OPEN_READWRITE);
    SQLite::Transaction of_node(node), of_catalog(catalog);
    for (int i = 0; i < 3; ++i) {
      Set(node, std::string("UPDATE uses SET ") + input_.PickValueInArray(kUses) + " = ?");
      Set(catalog, std::string("UPDATE volumes SET ") + input_.PickValueInArray(kVolumes) + " = ?");
    }
    of_node.commit();
    of_catalog.commit();
  }

  void Set(SQLite::Database& database, const std::string& change) {
    try {
      SQLite::Statement statement(database, change);
      if (input_.ConsumeBool()) {
        statement.bind(1, input_.ConsumeIntegral<std::int64_t>());
      } else {
        statement.bind(1, input_.ConsumeRandomLengthString(50));
      }
      statement.exec();
    } catch (const SQLite::Exception&) {
      // the table does not take such a value
    }
  }

  void ReadAll() {
    if (catalog_ != nullptr) {
      Accept(catalog_->FindById(kId).status());
      Accept(catalog_->ListReady(0, 10).status());
      Accept(catalog_->ListUnfinished().status());
      Accept(catalog_->ListEphemeral().status());
      Accept(catalog_->CountByPool().status());
    }
    if (node_ == nullptr) return;
    Accept(node_->All().status());
    Accept(node_->CountUses().status());
    testing::FakeMounter mounter;
    testing::FakeVolumeSource source;
    KeyedLocks locks;
    NodeVolumes volumes(mounter, source, *node_, locks);
    Accept(volumes.Reconcile());
    Accept(volumes.FindProblems({kId}).status());
    volumes.CommandsToFree(kId);
  }

  void DamageFiles() {
    node_.reset();
    catalog_.reset();
    for (const char* name : {"node", "catalog"}) {
      std::fstream file(File(name), std::ios::in | std::ios::out | std::ios::binary);
      for (int i = input_.ConsumeIntegralInRange(0, 4); i > 0; --i) {
        file.seekp(input_.ConsumeIntegralInRange(0, 20000));
        file << input_.ConsumeRandomLengthString(16);
      }
    }
  }

  FuzzedDataProvider& input_;
  const Directory& directory_ = Directory::Fresh();
  std::unique_ptr<NodeStore> node_;
  std::unique_ptr<CatalogStore> catalog_;
};

}  // namespace
}  // namespace mooring::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  FuzzedDataProvider input(data, size);
  mooring::fuzz::Stores(input).Try();
  return 0;
}
