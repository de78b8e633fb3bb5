#include "plugin/catalog/store/catalog_files.h"

#include "base/status.h"
#include "base/text/quote.h"
#include "sqlite/sqlite.h"

namespace mooring {

absl::StatusOr<std::string> CatalogFiles::AddShared(const std::string& path, const std::string& pool,
                                                    const std::function<absl::Status()>& may_begin) {
  MOORING_ASSIGN_OR_RETURN(std::shared_ptr<CatalogDatabase> opened,
                           RepeatWhileBusy([&] { return CatalogDatabase::OpenShared(path, pool, may_begin); }));
  for (const auto& file : files_) {
    if (file->tag() != opened->tag()) continue;
    return FailedPrecondition("the catalog {} is a copy of that of pool {}: give each pool a directory of its own",
                              Quote(path), file->pool());
  }
  files_.push_back(opened);
  return opened->tag();
}

CatalogDatabase& CatalogFiles::OfPool(std::string_view pool) const {
  for (const auto& file : files_) {
    if (!file->tag().empty() && file->pool() == pool) return *file;
  }
  return local();
}

absl::StatusOr<CatalogDatabase*> CatalogFiles::OfTag(std::string_view tag) const {
  for (const auto& file : files_) {
    if (file->tag() == tag) return file.get();
  }
  return FailedPrecondition(
      "the shared pool with the tag {} is not one of this plugin's: start the plugin with that pool (--pool)", tag);
}

}  // namespace mooring
