// The manager over a plugin, a kernel and a state in memory, and what must hold for each request to it.
#pragma once

#include <google/protobuf/message.h>

#include <memory>
#include <string>

#include "manager/api/handlers.h"
#include "manager/attach/attachments.h"
#include "manager/claims/claims.h"
#include "manager/docker/volume_driver.h"
#include "manager/volumes/volume_manager.h"
#include "manager/volumes/volumes.h"
#include "tests/fakes/fake_csi_plugin.h"
#include "tests/fakes/fake_mounter.h"
#include "tests/fakes/fake_plugin_directory.h"
#include "tests/fakes/memory_state.h"

namespace mooring::fuzz {

class ManagerWorld {
 public:
  ManagerWorld();

  // Sends a request of the API, or a DockerRequest. It checks:
  //   each answer is UTF-8, and each answer to Docker is a JSON object with "Err"
  //   no answer, error or line of the log contains a secret
  //   a refused request, and one that only reads, changes nothing
  //   the same request again succeeds and changes nothing
  // With `failing` that call of CSI fails once, so a request that fails may have changed something.
  void Send(const google::protobuf::Message& request, const std::string& failing);

  // Detaches and deletes everything. Then nothing is mounted, and the plugin has no volume that was created.
  void TakeDown();

 private:
  struct Answer {
    absl::Status status;
    std::string text;  // as the caller sees it
  };
  struct Row;

  Answer Ask(const google::protobuf::Message& request);
  Answer AskDocker(const google::protobuf::Message& request);
  template <typename Request, typename Response, typename Work>
  Answer AskApi(const google::protobuf::Message& request, Work work);
  void CheckAnswer(const google::protobuf::Message& request, const Answer& answer);
  std::string State();

  testing::FakeMounter kernel_;
  testing::FakePluginDirectory known_;
  std::unique_ptr<manager::PluginDirectory> plugins_;
  manager::SingleHost hosts_;
  std::shared_ptr<testing::FakeCsiPlugin> plugin_;
  testing::MemoryState state_;
  manager::RecordsStore store_{state_};
  KeyedLocks locks_;
  manager::Events events_;
  std::unique_ptr<manager::AttachmentJournal> journal_;
  std::unique_ptr<manager::VolumeManager> volume_manager_;
  manager::WorkQueue work_;
  std::unique_ptr<manager::Snapshots> snapshots_;
  std::unique_ptr<manager::Volumes> volumes_;
  std::unique_ptr<manager::Claims> claims_;
  std::unique_ptr<manager::Attachments> attachments_;
  std::unique_ptr<manager::DockerVolumeDriver> docker_;
  manager::Calls calls_{nullptr};
  std::string now_;             // State() after the last request
  bool knows_secret_ = false;   // a request had the secret in a field that is not secret, so it may be shown
  bool failed_before_ = false;  // a call of CSI has failed, so work may be owed
};

}  // namespace mooring::fuzz
