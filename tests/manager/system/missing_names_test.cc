// Commands of `mooring` with a name or a path that does not exist, and commands that ask for something else than there
// is. The error names what was probably meant. The API stays idempotent, because orchestrators repeat calls.
#include "tests/manager/system/manager_test.h"

namespace mooring::testing {
namespace {

struct Row {
  const char* command;
  const char* piece;  // of the error
};

class MissingNames : public ManagerTest {
 protected:
  void SetUp() override {
    Start();
    RunPlugin(kOurPlugin);
    Create("db-one", kOurPlugin);
    path_ = Attached("db-one");
  }
  int Mooring(const std::string& arguments) {
    const std::string file = dir() / "said";
    const std::string socket = process().options().socket;
    const int status = mooring::testing::Run("cd " + dir().path() + " && MOORING_MANAGER_SOCKET='" + socket +
                                             "' " MOORING_BINARY " " + arguments + " >'" + file + "' 2>&1 </dev/null");
    said_ = ReadFile(file);
    return status;
  }
  void ExpectRefused(const std::vector<Row>& rows) {
    for (const auto& [command, piece] : rows) {
      EXPECT_EQ(Mooring(command), 1) << command << "\n" << said_;
      EXPECT_THAT(said_, HasSubstr(piece)) << command;
    }
  }

  std::string path_, said_;
};

TEST_F(MissingNames, AreErrorsAndChangeNothing) {
  ExpectRefused({
      {"detach ./db-ome", "did you mean"},
      {"detach /nowhere/at/all", "nothing is attached at '/nowhere/at/all'; 'mooring attachments'"},
      {"detach db-ona --for web-1", "'web-1' has no attachment 'db-ona'; did you mean 'db-one'?"},
      {"detach db-one --for web-2", "'web-2' has no attachment 'db-one'"},
      {"release db-one --for web-2", "'web-2' has no claim on volume 'db-one'; did you mean 'web-1'?"},
      {"release db-one --for web-1 --mode read", "'web-1' has no read claim on volume 'db-one'"},
      {"release db-ona --for web-1", "there is no volume 'db-ona'; did you mean 'db-one'?"},
      {"release db-ona --force", "there is no volume 'db-ona'"},
      {"gone web-2", "'web-2' has no claims; did you mean 'web-1'?"},
      {"volume delete db-ona", "there is no volume 'db-ona'; did you mean 'db-one'?"},
      {"volume delete db-one -n other", "the namespace 'default' has a volume of that name: give -n default"},
      {"volume deregister db-ona", "there is no volume 'db-ona'"},
      {"volume status db-ona", "did you mean 'db-one'?"},
      {"volume expand db-ona --size 1GiB", "did you mean 'db-one'?"},
      {"volume update db-ona --mount-flag noatime", "did you mean 'db-one'?"},
      {"volume clone db-ona copy", "did you mean 'db-one'?"},
      {"volume snapshot create db-ona", "there is no volume 'db-ona'"},
      {"volume snapshot delete nothing --plugin mooring.csi", "has no snapshot 'nothing'"},
      {"volume snapshot list --plugin other.csi", "other.csi"},
      {"volume list --plugin other.csi", "there is no plugin 'other.csi'"},
      {"volume list --host other", "there is no host 'other'"},
      {"attach db-ona --for web-2", "did you mean 'db-one'?"},
      {"claim db-ona --for web-2 --mode read", "did you mean 'db-one'?"},
      {"claims db-ona", "there is no volume 'db-ona'"},
      {"claims db-ona --json", "there is no volume 'db-ona'"},
      {"claims --host other", "there is no host 'other'"},
      {"attachments db-ona", "there is no volume 'db-ona'"},
      {"events --host other", "there is no host 'other'"},
      {"watch --host other", "there is no host 'other'"},
      {"host status other", "there is no host 'other'"},
      {"plugin status other.csi", "there is no plugin 'other.csi'"},
      {"plugin stop other.csi", "other.csi"},
  });
  EXPECT_THAT(client().Attachments(), SizeIs(1));
  EXPECT_THAT(client().Claims(), SizeIs(1));
}

TEST_F(MissingNames, AreFineWithIfExistsAndOverTheApi) {
  for (const char* command : {"detach /nowhere", "detach db-ona --for web-1", "release db-one --for web-2",
                              "release db-ona --for web-1", "gone web-2", "volume delete db-ona",
                              "volume deregister db-ona", "volume snapshot delete nothing --plugin mooring.csi"}) {
    EXPECT_EQ(Mooring(std::string(command) + " --if-exists"), 0) << command << "\n" << said_;
  }
  ASSERT_EQ(Mooring("detach " + path_), 0) << said_;
  EXPECT_EQ(Mooring("detach " + path_), 1);
  EXPECT_OK(client().Detach("web-1", "db-one")) << "an orchestrator repeats its call";
  EXPECT_OK(client().Delete("db-one"));
  EXPECT_OK(client().Delete("db-one"));
}

TEST_F(MissingNames, WhatDiffersIsShownWithBothValues) {
  ExpectRefused({
      {"volume create db-one --plugin mooring.csi --size 64MiB",
       "volume 'db-one' exists already, with size 32 MiB, not 64 MiB; to grow it: "
       "mooring volume expand db-one --size 64MiB"},
      {"volume create db-one --plugin mooring.csi --size 32MiB --fs-type xfs --param pool=fast",
       "filesystem none, not 'xfs'; parameters none, not 'pool=fast'; use it as it is, delete it first"},
      {"volume create db-one --plugin mooring.csi --size 32MiB --mount-flag password=hunter2",
       "mount flags none, not password=***"},
      {"volume register db-one --plugin mooring.csi --external-id v", "it was created, not registered"},
      {"attach db-one --for web-1 --propagation rslave", "propagation private, not rslave"},
      {"volume create new --plugin mooring.csi --mount-flag noatime,nouuidd",
       "mount flag 'nouuidd' is not allowed for ext4"},
      {"volume create new --plugin mooring.csi --mount-flag commit=hunter2",
       "mount flag 'commit' takes a number from 0"},
  });
  EXPECT_THAT(said_, Not(HasSubstr("hunter2")));
  EXPECT_THAT(process().Log(), Not(HasSubstr("hunter2")));
}

// Docker, nobody and everybody pass these.
TEST_F(MissingNames, HarmlessMountFlagsAreTaken) {
  EXPECT_EQ(Mooring("volume create f --plugin mooring.csi --mount-flag nouuid,_netdev,nofail,async --mount-flag "
                    "x-systemd.automount --size 32MiB"),
            0)
      << said_;
  EXPECT_EQ(Mooring("attach f ./f --for web-1"), 0) << said_;
}

}  // namespace
}  // namespace mooring::testing
