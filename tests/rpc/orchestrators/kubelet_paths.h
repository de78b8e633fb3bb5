// The paths of kubelet (K5, K6), made as kubelet makes them. The numbers are explained in tests/kubernetes/README.md.
#ifndef MOORING_TESTS_RPC_ORCHESTRATORS_KUBELET_PATHS_H_
#define MOORING_TESTS_RPC_ORCHESTRATORS_KUBELET_PATHS_H_

#include <sys/mount.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <string>

#include "tests/rpc/support/rpc_test.h"

namespace mooring::testing {

class KubeletTest : public RpcTest {
 protected:
  // The staging directory of a mount volume: exists, 0750.
  std::string GlobalMount(const std::string& id) {
    const std::string hash = std::to_string(std::hash<std::string>()(id));
    return Made("kubelet/plugins/kubernetes.io/csi/mooring.csi/" + hash + "/globalmount");
  }

  // The target of a mount volume: only the parent exists, with a file of kubelet in it.
  std::string PodTarget(const std::string& pod, const std::string& pv) {
    const std::string parent = Made("kubelet/pods/" + pod + "/volumes/kubernetes.io~csi/" + pv);
    if (!std::filesystem::exists(parent + "/vol_data.json")) std::ofstream(parent + "/vol_data.json") << "{}";
    return parent + "/mount";
  }

  std::string BlockStaging(const std::string& pv) { return Made(kBlock + "staging/" + pv); }
  std::string BlockTarget(const std::string& pv, const std::string& pod) {
    return Made(kBlock + "publish/" + pv) + "/" + pod;
  }

  // Binds the published device, as kubelet does. The test unmounts it, or the fixture does at the end.
  std::string BindForPod(const std::string& target, const std::string& pv, const std::string& pod) {
    const std::string path = Made(kBlock + pv + "/dev") + "/" + pod;
    std::ofstream(path).close();
    EXPECT_EQ(::mount(target.c_str(), path.c_str(), nullptr, MS_BIND, nullptr), 0);
    AllowMount(path);
    return path;
  }

 private:
  inline static const std::string kBlock = "kubelet/plugins/kubernetes.io/csi/volumeDevices/";

  std::string Made(const std::string& below_dir) {
    if (!std::filesystem::exists(dir() / below_dir)) ::chmod(MakeDirectories(below_dir).c_str(), 0750);
    return dir() / below_dir;
  }
};

}  // namespace mooring::testing

#endif  // MOORING_TESTS_RPC_ORCHESTRATORS_KUBELET_PATHS_H_
