// The values of --pool that are accepted, and the errors for others.
#include "plugin/config/pool_config.h"

#include <sys/stat.h>
#include <unistd.h>

#include "base/file/path.h"
#include "mounter/path/device_links.h"
#include "mounter/path/mapping_names.h"
#include "plugin/backends/registry.h"
#include "plugin/model/volume_id.h"
#include "tests/unit/unit_test.h"

namespace mooring::testing {
namespace {

using ::testing::Each;

TEST(PoolConfigTest, TheDefaultPoolExistsWithoutAFlag) {
  const auto pools = ParsePools({});
  ASSERT_OK(pools);
  ASSERT_EQ(pools->size(), 1U);
  EXPECT_EQ(pools->front().name, "default");
  EXPECT_EQ(pools->front().kind, BackendKind::kImage);
  EXPECT_EQ(pools->front().path, "");
  EXPECT_FALSE(pools->front().overcommit);
}

TEST(PoolConfigTest, AFlagReplacesTheDefaultPoolOrAddsAnother) {
  const auto pools = ParsePools({"name=fast,backend=image,path=/srv/fast,overcommit=1.5",
                                 "backend=directory,name=default,path=/srv/dirs/", "name=mem,backend=tmpfs,size=4KiB"});
  ASSERT_OK(pools);
  ASSERT_EQ(pools->size(), 3U);
  EXPECT_EQ((*pools)[0].kind, BackendKind::kDirectory);
  EXPECT_EQ((*pools)[1].path, "/srv/fast");
  EXPECT_EQ((*pools)[1].overcommit, 1.5);
  EXPECT_EQ((*pools)[2].bytes, 4096U);
}

TEST(PoolConfigTest, APoolIsSharedIfItSaysSo) {
  const auto pools =
      ParsePools({"name=a,backend=image,path=/a,shared=true", "name=b,backend=image,path=/b,shared=false"});
  ASSERT_OK(pools);
  EXPECT_FALSE((*pools)[0].shared);
  EXPECT_TRUE((*pools)[1].shared);
  EXPECT_FALSE((*pools)[2].shared);
}

TEST(PoolConfigTest, ATmpfsPoolHasHalfOfTheMemoryByDefault) {
  const auto pools = ParsePools({"name=mem,backend=tmpfs"});
  ASSERT_OK(pools);
  const auto all = static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES) * ::sysconf(_SC_PAGESIZE));
  EXPECT_NEAR(static_cast<double>((*pools)[1].bytes), static_cast<double>(all) / 2, static_cast<double>(all) / 50);
}

TEST(PoolConfigTest, TheSizeOfATmpfsPoolMayHaveAUnit) {
  EXPECT_EQ(ParsePools({"name=mem,backend=tmpfs,size=1GiB"})->at(1).bytes, std::uint64_t{1} << 30U);
  EXPECT_EQ(ParsePools({"name=mem,backend=tmpfs,size=512Mi"})->at(1).bytes, std::uint64_t{512} << 20U);
}

TEST(PoolConfigTest, ADevicePoolUsesTheLinksOfUdevByDefault) {
  const auto pools = ParsePools({"name=a,backend=device,match=nvme-*", "name=b,backend=device,match=*,path=/links/"});
  ASSERT_OK(pools);
  EXPECT_EQ((*pools)[1].kind, BackendKind::kDevice);
  EXPECT_EQ((*pools)[1].path, "/dev/disk/by-id");
  EXPECT_EQ((*pools)[1].own_keys.at("match"), "nvme-*");
  EXPECT_EQ((*pools)[2].path, "/links");
}

std::string MountedBy(const std::string& text) {
  const auto pools = ParsePools({text});
  if (!pools.ok()) return Message(pools.status());
  EXPECT_TRUE(pools->at(1).shared);
  const OwnMount own = TypeOf(pools->at(1).kind).own_mount(pools->at(1));
  return own.server + " " + own.request.fs_type + " " + own.request.source + " " + ToString(own.request.options);
}

TEST(PoolConfigTest, AnNfsPoolIsMountedFromItsServer) {
  EXPECT_EQ(MountedBy("name=s,backend=nfs,server=nas.lan,export=/srv/a"), "nas.lan nfs4 nas.lan:/srv/a hard,vers=4.2");
  EXPECT_EQ(MountedBy("name=s,backend=nfs,server=fd00::1,export=/"), "fd00::1 nfs4 [fd00::1]:/ hard,vers=4.2");
  EXPECT_EQ(MountedBy("name=s,backend=nfs,server=nas,export=/a,options=nfsvers=4.1,nconnect=4,noatime,_netdev"),
            "nas nfs4 nas:/a hard,nconnect=4,vers=4.1");
}

struct Wrong {
  const char* text;
  const char* why;
};

class WrongPool : public ::testing::TestWithParam<Wrong> {};

TEST_P(WrongPool, IsRefusedWithTheReason) {
  const auto pools = ParsePools({GetParam().text});
  EXPECT_THAT(pools.status(), FailsWith(StatusCode::kInvalidArgument, GetParam().why));
  EXPECT_THAT(pools.status(), FailsWith(StatusCode::kInvalidArgument, "--pool"));
}

INSTANTIATE_TEST_SUITE_P(
    All, WrongPool,
    ::testing::Values(
        Wrong{"", "use key=value"}, Wrong{"fast", "use key=value"},
        Wrong{"name=a,backend=image,path=/a,", "use key=value"}, Wrong{"backend=image,path=/a", "name is missing"},
        Wrong{"name=.,backend=image,path=/a", "name must"}, Wrong{"name=a/b,backend=image,path=/a", "name must"},
        Wrong{"name=a,path=/a", "backend is missing"},
        Wrong{"name=a,backend=zfs,path=/a", "backend is missing or unknown"},
        Wrong{"name=a,backend=nfs,path=/a", "has no 'path': it takes server, export"},
        Wrong{"name=a,backend=nfs,export=/a", "server must"},
        Wrong{"name=a,backend=nfs,server=a b,export=/a", "server must"}, Wrong{"name=a,backend=nfs,server=a", "export"},
        Wrong{"name=a,backend=nfs,server=a,export=a", "absolute"},
        Wrong{"name=a,backend=nfs,server=a,export=/a/", "export must"},
        Wrong{"name=a,backend=nfs,server=a,export=/a,shared=true", "has no 'shared'"},
        Wrong{"name=a,backend=nfs,server=a,export=/a,options=sec=krb5p", "needs a program beside the kernel"},
        Wrong{"name=a,backend=nfs,server=a,export=/a,options=nconnect=4,xprtsec=tls", "needs a program"},
        Wrong{"name=a,backend=nfs,server=a,export=/a,options=nfsvers=3", "use vers=4.1 or vers=4.2"},
        Wrong{"name=a,backend=nfs,server=a,export=/a,options=vers=4", "takes one of 4.1, 4.2"},
        Wrong{"name=a,backend=nfs,server=a,export=/a,options=softerr", "loses data"},
        Wrong{"name=a,backend=nfs,server=a,export=/a,options=ro", "publish the volumes read-only"},
        Wrong{"name=a,backend=nfs,server=a,export=/a,options=fsc", "mount flag 'fsc' is not allowed for nfs4"},
        Wrong{"name=a,backend=image", "path is missing"}, Wrong{"name=default,backend=directory", "path is missing"},
        Wrong{"name=a,backend=image,path=a", "absolute"}, Wrong{"name=a,backend=image,path=/a,path=/b", "given twice"},
        Wrong{"name=a,backend=image,path=/a,size=5", "has no 'size': it takes path, overcommit"},
        Wrong{"name=a,backend=image,path=/a,overcommit=0", "overcommit must"},
        Wrong{"name=a,backend=image,path=/a,overcommit=nan", "overcommit must"},
        Wrong{"name=a,backend=image,path=/a,overcommit=2x", "overcommit must"},
        Wrong{"name=a,backend=tmpfs,size=0", "size must"},
        Wrong{"name=a,backend=tmpfs,size=-1", "size '-1' is not a size"},
        Wrong{"name=a,backend=tmpfs,size=1XB", "size '1XB'"},
        Wrong{"name=a,backend=tmpfs,size=5", "size '5' has no unit"},
        Wrong{"name=a,backend=tmpfs,path=/a", "has no 'path'"},
        Wrong{"name=a,backend=device,path=/dev/disk/by-id", "match is missing"},
        Wrong{"name=a,backend=device,match=", "match must"}, Wrong{"name=a,backend=device,match=*/x", "match must"},
        Wrong{"name=a,backend=device,match=*,overcommit=2", "it takes path, match"},
        Wrong{"name=a,backend=image,path=/a,match=*", "has no 'match'"},
        Wrong{"name=a,backend=image,path=/a,shared=yes", "shared must be true or false"},
        Wrong{"name=default,backend=image,shared=true", "name the directory that the hosts share"},
        Wrong{"name=a,backend=directory,path=/a,shared=true", "has no 'shared'"},
        Wrong{"name=a,backend=directory,path=/a,quota=", "quota is enforced or advisory, not ''"},
        Wrong{"name=a,backend=directory,path=/a,quota=on", "quota is enforced or advisory, not 'on'"},
        Wrong{"name=a,backend=nfs,server=a,export=/a,quota=enforced", "has no 'quota'"},
        Wrong{"name=a,backend=device,match=*,shared=true", "has no 'shared'"},
        Wrong{"name=a,backend=tmpfs,shared=true", "has no 'shared'"}, Wrong{"name=a,backend=btrfs", "path is missing"},
        Wrong{"name=a,backend=btrfs,path=/a,size=1", "has no 'size'"}, Wrong{"name=a,backend=lvm", "vg is missing"},
        Wrong{"name=a,backend=lvm,vg=-a", "no name of a volume group"},
        Wrong{"name=a,backend=lvm,vg=a,thinpool=a/b", "no name of a thin pool"},
        Wrong{"name=a,backend=lvm,vg=a,thinpool=", "no name of a thin pool"},
        Wrong{"name=a,backend=lvm,vg=a,path=/a", "has no 'path'"}, Wrong{"name=a,backend=luks", "path is missing"},
        Wrong{"name=default,backend=luks,keyfile=/etc/mooring/key", "path is missing"},
        Wrong{"name=a,backend=luks,path=/a,keyfile=", "keyfile"},
        Wrong{"name=a,backend=luks,path=/a,keyfile=etc/key", "absolute"},
        Wrong{"name=a,backend=luks,path=/a,keyfile=/key", "lies in the root directory"},
        Wrong{"name=a,backend=luks,path=/a,size=5", "has no 'size': it takes path, overcommit, shared, keyfile"},
        Wrong{"name=a,backend=image,path=/a,keyfile=/etc/mooring/key", "has no 'keyfile'"},
        Wrong{"name=a,backend=btrfs,path=/a,quota=full", "quota is enforced or advisory, not 'full'"}));

TEST(PoolConfigTest, ABtrfsPoolEnforcesSizesByDefault) {
  const auto pools = ParsePools({"name=a,backend=btrfs,path=/a", "name=b,backend=btrfs,path=/b,quota=advisory"});
  ASSERT_OK(pools);
  EXPECT_EQ((*pools)[1].own_keys.at("quota"), "enforced");
  EXPECT_EQ((*pools)[2].own_keys.at("quota"), "advisory");
}

TEST(PoolConfigTest, OnlyAThinPoolHasSnapshotsAndClones) {
  const auto pools = ParsePools({"name=a,backend=lvm,vg=fast", "name=b,backend=lvm,vg=fast,thinpool=thin"});
  ASSERT_OK(pools);
  for (const std::size_t i : {1U, 2U}) {
    const BackendTraits traits = TraitsOf((*pools)[i]);
    EXPECT_EQ(traits.snapshots, i == 2);
    EXPECT_EQ(traits.clones, i == 2);
    EXPECT_TRUE(traits.grows && traits.block && traits.enforces_size);
  }
}

TEST(PoolConfigTest, AnEncryptedPoolHasAKeyFileIfItIsGiven) {
  const auto pools = ParsePools({"name=a,backend=luks,path=/a,overcommit=2,keyfile=/etc//mooring/key/",
                                 "name=b,backend=luks,path=/b,shared=true"});
  ASSERT_OK(pools);
  PoolAccess access;
  for (const std::size_t i : {1U, 2U}) {
    EXPECT_EQ((*pools)[i].kind, BackendKind::kLuks);
    EXPECT_TRUE(TraitsOf((*pools)[i]).encrypted);
    EXPECT_FALSE(TraitsOf((*pools)[i]).tunes || TraitsOf((*pools)[i]).snapshot_blocks);
    TypeOf((*pools)[i].kind).allow((*pools)[i], access);
  }
  EXPECT_THAT(access.image_directories, ElementsAre("/a", "/b"));
  EXPECT_THAT(access.encrypted_pools, ElementsAre("/a", "/b"));
  EXPECT_THAT(access.key_files, ElementsAre("/etc/mooring/key"));
  EXPECT_THAT(access.link_directories, Each("/dev/mapper"));
}

// Only a pool of several hosts has ids with a tag.
TEST(PoolConfigTest, TheHelperMayUseTheMappingsOfVolumesOnly) {
  for (const bool shared : {false, true}) {
    PoolConfig pool;
    pool.kind = BackendKind::kLuks;
    pool.shared = shared;
    PoolAccess access;
    TypeOf(pool.kind).allow(pool, access);
    ASSERT_EQ(access.device_links.size(), 1U);
    const auto may = [&](const std::string& name) {
      return MatchesLinks(std::string(NameOf(access.device_links.front())), name);
    };
    EXPECT_EQ(may(MappingName(NewVolumeId())), !shared);
    EXPECT_EQ(may(MappingName(NewVolumeId("0123abcd"))), shared);
    for (const std::string& name : {MappingName(NewSnapshotId()), MappingName("vol-1"), NewVolumeId(),
                                    MappingName(NewVolumeId() + "0"), std::string("control")}) {
      EXPECT_FALSE(may(name)) << name;
    }
  }
}

TEST(PoolConfigTest, RefusesANameThatIsGivenTwice) {
  constexpr char kWhy[] = "there is a pool of this name already";
  EXPECT_THAT(ParsePools({"name=a,backend=tmpfs", "name=a,backend=tmpfs"}).status(),
              FailsWith(StatusCode::kInvalidArgument, kWhy));
  EXPECT_THAT(ParsePools({"name=default,backend=tmpfs", "name=default,backend=tmpfs"}).status(),
              FailsWith(StatusCode::kInvalidArgument, kWhy));
}

}  // namespace
}  // namespace mooring::testing
